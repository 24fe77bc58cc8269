"""Write the parts of the reference that the code knows: commands, settings, calls, problems, terms.

It also records the answers of the examples of the HTTP API, by playing them.

The parts are committed, so that you can read the pages in an editor or on a forge. A part is between
two comments, ``<!-- generated: commands -->`` and ``<!-- end: commands -->``. A test fails if it is stale.

    python scripts/reference_pages.py    # write all parts anew
"""

import asyncio
import html
import inspect
import json
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from inspect import getdoc
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import click
import httpx
import yaml
from pydantic import BaseModel
from typer.cli import get_docs_for_click

from controller import ServeSettings
from controller.http.app import create_app
from controller.http.examples import EXAMPLES
from tests.service.in_process import served_in_process
from tests.service.story import StoryClient, recorded
from tidegauge.errors import PROBLEMS, ProblemError, fields_of
from tidegauge.wire.streams import ChangeStream, CreateStream, Retention, ScalingPolicy
from tidegauge_cli.verbs import whole_command

VOCABULARY = Path(__file__).with_name("vocabulary.toml")
PAGES = Path(__file__).parents[1] / "docs/reference"
ANSWERS = Path(__file__).parents[1] / "controller/http/answers.json"
_PART = re.compile(
    r"^<!-- generated: (\w+) -->$.*?^<!-- end: \1 -->$", re.MULTILINE | re.DOTALL
)
# A directive of mkdocstrings, with its options, which are indented.
_DIRECTIVE = re.compile(r"^::: (\S+)\n((?: +.*\n)*)", re.MULTILINE)
_METHODS = ("get", "put", "post", "patch", "delete")


def write(text: str) -> str:
    """Return a page with its parts as the code has them now."""

    def generate(part: re.Match[str]) -> str:
        made = names(text) if part[1] == "names" else PARTS[part[1]]()
        return f"<!-- generated: {part[1]} -->\n\n{made.strip()}\n\n<!-- end: {part[1]} -->"

    return _PART.sub(generate, text)


def names(page: str) -> str:
    """List what a page of the Python reference describes: each name with its summary."""
    described = (
        pair
        for directive in _DIRECTIVE.finditer(page)
        for pair in _names_of(resolve_name(directive[1]), yaml.safe_load(directive[2]) or {})
    )
    rows = [[f"`{name}`", _summary(thing)] for name, thing in described]
    return _table(["Name", "Summary"], rows)


def _names_of(thing: object, given: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the names that a directive shows, as mkdocstrings chooses them."""
    options = given.get("options", {})
    if not inspect.ismodule(thing):
        yield _signature(thing.__name__, thing), thing
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            for name, member in inspect.getmembers(thing, callable):
                if not name.startswith("_") and _is_ours(member):
                    yield _signature(f"{thing.__name__}.{name}", member), member
        return
    public = options.get("members") or [
        name
        for name in getattr(thing, "__all__", vars(thing))
        if _is_ours(getattr(thing, name))
        and (hasattr(thing, "__all__") or getattr(thing, name).__module__ == thing.__name__)
        and _passes(name, options.get("filters", ["!^_"]))
    ]
    for name in public:
        yield from _names_of(getattr(thing, name), {})


def _is_ours(thing: object) -> bool:
    """Return whether it is no member that a library or Python itself gives."""
    home = (getattr(thing, "__module__", None) or "").partition(".")[0]
    return (PAGES.parents[1] / home).is_dir() and bool(home and getdoc(thing))


def _passes(name: str, filters: list[str]) -> bool:
    refused = any(re.search(rule[1:], name) for rule in filters if rule.startswith("!"))
    wanted = [rule for rule in filters if not rule.startswith("!")]
    return not refused and all(re.search(rule, name) for rule in wanted)


def _signature(name: str, thing: object) -> str:
    if not callable(thing) or (inspect.isclass(thing) and issubclass(thing, Exception)):
        return name
    parameters = inspect.signature(thing).parameters
    passed = [one for one in parameters if one not in {"self", "cls"} and one[0] != "_"]
    return f"{name}({', '.join(passed)})"


def _summary(thing: object) -> str:
    return " ".join((getdoc(thing) or "").partition("\n\n")[0].split())


def commands() -> str:
    """Describe every command and option, from the help."""
    group = whole_command()
    text = get_docs_for_click(
        obj=group, ctx=click.Context(group), indent=1, name="tidegauge", title="`tidegauge`"
    )
    # The help is plain text, which the theme escapes by itself.
    return html.unescape(text).replace("<str>", "TEXT").replace("<path>", "PATH")


def settings() -> str:
    """Describe the settings of a stream, from the model that reads them."""
    fixed = {
        name
        for name, field in ChangeStream.model_fields.items()
        if "immutable_setting" in (field.description or "")
    }
    heads = ["Setting", "Values", "Default", "Can change", "Meaning"]
    rows = [
        [f"`{name}`", values, default, "no" if name in fixed else "yes", meaning]
        for name, values, default, meaning in _fields_of(CreateStream)
    ]
    parts = [_table(heads, rows)]
    for title, model in (("scaling", ScalingPolicy), ("retention", Retention)):
        inner = [[f"`{name}`", *rest] for name, *rest in _fields_of(model)]
        parts.append(f"## `{title}`\n\n{getdoc(model)}\n")
        parts.append(_table(["Field", "Values", "Default", "Meaning"], inner))
    return "\n".join(parts)


def calls() -> str:
    """List every call of the HTTP API."""
    tables: dict[str, list[list[str]]] = {}
    for path, found in openapi()["paths"].items():
        for method in _METHODS:
            if method not in found:
                continue
            one = found[method]
            first, *_, needs = one["description"].split("\n\n")
            tables.setdefault(one["tags"][0], []).append(
                [
                    f"`{one['operationId']}`",
                    f"`{method.upper()} {path}`",
                    " ".join(first.split()),
                    needs.removeprefix("Needs ").rstrip("."),
                ]
            )
    heads = ["Name", "Call", "What it does", "Needs"]
    return "\n".join(
        f"### {tag.capitalize()}\n\n{_table(heads, rows)}" for tag, rows in tables.items()
    )


def problems() -> str:
    """Describe every problem that the service answers, under its code."""
    return "\n".join(_describe(PROBLEMS[code]) for code in sorted(PROBLEMS))


def terms() -> str:
    """Describe the vocabulary."""
    return "\n".join(
        f"### {one['name']}\n\n{one['meaning'].strip()}\n" for one in vocabulary()["term"]
    )


def vocabulary() -> dict[str, Any]:
    """Read the terms, and the words that they replace."""
    return tomllib.loads(VOCABULARY.read_text())


def openapi() -> dict[str, Any]:
    """Ask the service for its OpenAPI document."""

    async def ask(folder: str) -> dict[str, Any]:
        service = create_app(ServeSettings(database_url=f"sqlite:///{folder}/unused.db"))
        transport = httpx.ASGITransport(service)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1"
        ) as client:
            return (await client.get("/openapi.json")).raise_for_status().json()

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(ask(folder))


def answers() -> str:
    """Play the examples of all calls, and return their answers, one a line."""
    found = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        served_in_process(
            ServeSettings(database_url=f"sqlite:///{folder}/story.db")
        ) as service,
        StoryClient(transport=service, base_url=service.url) as client,
    ):
        for one in EXAMPLES:
            answer = recorded(client.play(one), one.answer)
            if answer is not None:
                found[one.call] = answer
    lines = (f"{json.dumps(call)}: {json.dumps(answer)}" for call, answer in found.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def openapi_page() -> str:
    """Make the page that shows the document: it needs neither a service nor the internet."""
    document = json.dumps(openapi()).replace("</", "<\\/")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>HTTP API of Tidegauge</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="swagger-ui.css">
<style>.swagger-ui :is(.scheme-container, .authorization__btn, .info .link) {{ display: none }}</style>
</head>
<body>
<div id="api"></div>
<script src="swagger-ui-bundle.js"></script>
<script>
const spec = {document}
const shown = SwaggerUIBundle({{
  spec,
  dom_id: "#api",
  deepLinking: true,
  docExpansion: "none",
  supportedSubmitMethods: [],
  validatorUrl: null,
}})
// References are resolved against an address that may be in a URL of HTTP only; it is not asked.
shown.specActions.updateUrl("http://127.0.0.1:8470/openapi.json")
</script>
</body>
</html>
"""


PARTS: dict[str, Callable[[], str]] = {
    "calls": calls,
    "commands": commands,
    "problems": problems,
    "settings": settings,
    "terms": terms,
}


def _describe(problem: type[ProblemError]) -> str:
    message = vars(problem).get("message")
    carried = ", ".join(f"`{one.name}`" for one in fields_of(problem))
    return (
        f"### {problem.code}\n\n"
        f"`{problem.status}` · `urn:tidegauge:{problem.code}` · "
        f"[`{problem.__name__}`](python/errors.md)\n\n"
        f"{' '.join((getdoc(problem) or '').split())}\n"
        + (f"\n> {message}\n" if isinstance(message, str) else "")
        + (f"\nFields: {carried}.\n" if carried else "")
    )


def _fields_of(model: type[BaseModel]) -> Iterator[tuple[str, str, str, str]]:
    schema = model.model_json_schema()["properties"]
    for name, field in model.model_fields.items():
        default = f"`{json.dumps(field.default)}`"
        if name.endswith("_ms") and isinstance(field.default, int):
            default += _in_words(field.default)
        yield name, _values(schema[name]), default, field.description or ""


def _values(schema: dict[str, Any]) -> str:
    """Say which values a field takes; integers may be sent as text, which is said once."""
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    choices = schema.get("anyOf", [schema])
    said = []
    for one in choices:
        if one.get("type") == "integer":
            most = (
                f" to {one['maximum']:,}".replace(",", " ") if "maximum" in one else " or more"
            )
            said.append(f"{one['minimum']}{most}")
        elif one.get("type") == "null":
            said.append("`null`")
        elif "oneOf" in one:
            said.append("`fixed` or a policy, see below")
        elif "$ref" in one:
            said.append("an object, see below")
    return ", ".join(said)


def _in_words(span_ms: int) -> str:
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if span_ms >= length and span_ms % length == 0:
            return f" ({span_ms // length} {unit})"
    return ""


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |\n" for row in lines
    )


if __name__ == "__main__":
    ANSWERS.write_text(answers())
    for path in PAGES.rglob("*.md"):
        path.write_text(write(path.read_text()))
