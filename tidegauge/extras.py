"""Which extra of the distribution brings a package that is missing."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def needs_extra(what: str, *, extra: str) -> Iterator[None]:
    """Name the extra to install where an import fails because of its absence."""
    try:
        yield
    except ModuleNotFoundError as error:
        msg = f"{what} needs {error.name}; run: pip install 'tidegauge[{extra}]'"
        raise ModuleNotFoundError(msg, name=error.name) from error


def on_demand(package: str, modules: Mapping[str, str], *, extra: str) -> Callable[[str], Any]:
    """Make a ``__getattr__`` for a package, some of whose names need an extra.

    For each of these names there is the module that defines it; it is imported when the name is
    asked for.
    """

    def find(name: str) -> Any:  # noqa: ANN401 (whatever the module defines)
        if name not in modules:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg, name=name)
        with needs_extra(f"{package}.{name}", extra=extra):
            return getattr(import_module(modules[name]), name)

    return find
