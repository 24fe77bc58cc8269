"""Which extra of the distribution brings a package that is missing, and imports that wait."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from typing import Any


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
    package: str, names: Mapping[str | None, Mapping[str, str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make ``__getattr__`` and ``__dir__`` of a package that imports when a name is asked for.

    For each extra, or None where none is needed, there are names and the modules that define
    them.
    """
    places = {
        name: (module, extra)
        for extra, modules in names.items()
        for name, module in modules.items()
    }
    known = vars(sys.modules[package])

    def find(name: str) -> Any:  # noqa: ANN401 (whatever the module defines)
        if name not in places:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg, name=name)
        module, extra = places[name]
        with needs_extra(f"{package}.{name}", extra=extra) if extra else nullcontext():
            known[name] = getattr(import_module(module), name)
        return known[name]

    return find, lambda: sorted({*known, *places})
