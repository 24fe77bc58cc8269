"""Which extra of the distribution brings a package that is missing, and imports that wait."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from pkgutil import get_data
from typing import Any

_IN_STUB = re.compile(r"^from (\S+) import (\w+) as", re.MULTILINE)


def how_to_install(extra: str) -> str:
    """Return how an extra is installed: from files, since no package index has this distribution."""
    return (
        f"run pip install '.[{extra}]' in a checkout of Tidegauge, or with its wheel "
        f"pip install 'WHEEL[{extra}]'"
    )


def needed(error: ImportError) -> str:
    """Return which package an import needs, and the version of one that lacks what is imported.

    An error that is about no package of an extra is raised again.
    """
    from importlib.metadata import PackageNotFoundError, requires, version  # noqa: PLC0415 (slow)

    package, _, inside = (error.name or "none").replace("_", "-").partition(".")
    if isinstance(error, ModuleNotFoundError) and not inside:
        return str(error.name)
    with suppress(PackageNotFoundError):
        found = version(package)
        for one in requires("tidegauge") or ():
            wanted = one.partition(";")[0]
            if wanted.startswith(package) and wanted[len(package)] in "<>=[":
                return f"{wanted}, and {found} is installed ({error})"
    if isinstance(error, ModuleNotFoundError):
        return str(error.name)
    raise error


@contextmanager
def needs_extra(what: str, *, extra: str) -> Iterator[None]:
    """Raise an error that names the extra to install, where an import fails for lack of it."""
    try:
        yield
    except ImportError as error:
        if how_to_install(extra) in str(error):  # another one around that import has said it
            raise
        msg = f"{what} needs {needed(error)}; {how_to_install(extra)}"
        raise type(error)(msg, name=error.name) from error


def on_demand(
    package: str, extra: str | None = None, *, unlisted: str = "", **extras: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make ``__getattr__``, ``__dir__`` and ``__all__`` of a package that imports what is asked for.

    Its stub has the names, each on a line of its own. What a module needs is in ``extra``, or where
    ``extras`` has its last name, there. Names of the module ``unlisted`` are not in ``__all__``.
    """
    try:
        stub = get_data(package, "__init__.pyi")  # also from an archive
    except OSError:
        stub = None
    if not stub:
        msg = f"{package} lacks its __init__.pyi, which has its names: install or pack its stubs, too"
        raise ImportError(msg, name=package)
    places = {name: module for module, name in _IN_STUB.findall(stub.decode())}
    known = vars(sys.modules[package])

    def find(name: str) -> Any:  # noqa: ANN401 (whatever the module defines)
        if name not in places:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg, name=name)
        wanted = extras.get(places[name].rpartition(".")[2], extra)
        with needs_extra(f"{package}.{name}", extra=wanted) if wanted else nullcontext():
            known[name] = getattr(import_module(places[name]), name)
        return known[name]

    listed = sorted(name for name, module in places.items() if module != unlisted)
    return find, lambda: sorted({*known, *places}), listed
