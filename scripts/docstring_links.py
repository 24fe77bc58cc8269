"""Turns the names in docstrings into links, and shows methods that are made as what they are."""

import re

import griffe

import spark_source.errors
import tidegauge.errors

_LITERALS_AND_NAMES = re.compile(r"``.+?``|`([A-Za-z_][\w.]*)`", re.DOTALL)
# The home of errors, which a docstring names without importing them.
_ERRORS = tidegauge.errors, spark_source.errors
_CLASS = re.compile(r"[A-Z][a-z]")


class DocstringLinks(griffe.Extension):
    """Links names that the docstring's scope knows, and classes in any case.

    The build complains of a link to what has no place in the reference, so that a docstring
    cannot name a class or a method that is gone.
    """

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        """Rewrite the docstrings of a package, once all its names are known."""
        self._link(pkg)
        for module in pkg.modules.values():
            for face in module.classes.values():
                _describe_blocking(face)

    def on_function(self, *, func: griffe.Function, **_: object) -> None:
        """Drop what the unpacking of options repeats: the class's docstring describes them."""
        if func.name == "__init__":
            func.docstring = None

    def _link(self, one: griffe.Object) -> None:
        # Descriptions of fields are the API's, written in Markdown.
        if one.docstring is not None and "pydantic-field" not in one.labels:
            text = one.docstring.value
            one.docstring.value = _LITERALS_AND_NAMES.sub(lambda name: _linked(one, name), text)
        for member in one.members.values():
            if isinstance(member, griffe.Object):
                self._link(member)


def _describe_blocking(face: griffe.Class) -> None:
    """Show ``name = blocking(AsyncClient.name)`` as the method that it makes."""
    for name, made in list(face.attributes.items()):
        found = re.fullmatch(r"blocking\((\w+)\.(\w+)\)", str(made.value))
        if found is None:
            continue
        method = face.module[found[1]].all_members[found[2]]
        face.set_member(
            name,
            griffe.Function(
                name,
                lineno=made.lineno,
                endlineno=made.endlineno,
                parameters=method.parameters,
                returns=method.returns,
                docstring=method.docstring
                and griffe.Docstring(method.docstring.value, parser=method.docstring.parser),
            ),
        )


def _linked(scope: griffe.Object, found: re.Match[str]) -> str:
    name = found[1]
    if name is None:
        return found[0]
    first, *rest = name.split(".")
    try:
        path = ".".join([scope.resolve(first), *rest])
    except griffe.NameResolutionError:
        home = next((one.__name__ + "." for one in _ERRORS if hasattr(one, first)), "")
        return f"[`{name}`][{home}{name}]" if _CLASS.match(name) else found[0]
    return f"[`{name}`][{path}]"
