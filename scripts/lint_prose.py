"""Check README, CONTRIBUTING and docs: the words of `vocabulary.toml`, and sentences of 30 words.

proselint finds them, with its own checks; it needs no network. Code, addresses and quotations of
output are left out.

    python scripts/lint_prose.py            # README.md, CONTRIBUTING.md and docs
    python scripts/lint_prose.py PAGE ...
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from proselint.checks import __register__ as proselint_checks
from proselint.config import DEFAULT
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check, CheckResult
from proselint.registry.checks.types import PreferredForms
from proselint.tools import LintFile

ROOT = Path(__file__).parents[1]
MOST_WORDS = 30
_LEFT_OUT = (
    "dates_times",  # takes "from 12:00 to 13:00" for a mistake
    "lexical_illusions",  # a heading and the sentence below it may begin with the same word
    "typography",  # quotes and dashes are typed as on a keyboard
)
_VOCABULARY = Path(__file__).with_name("vocabulary.toml")
_CODE = (
    re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.DOTALL | re.MULTILINE),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"^:::.*(?:\n(?: +.*)?)*", re.MULTILINE),
)
_INLINE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_ADDRESS = re.compile(r"(?<=\])\([^)\s]*\)|(?<=\])\[[^\]]*\]|<https?:[^>]*>|!\[[^\]]*\]")
_QUOTED = re.compile(r"^>.*$", re.MULTILINE)
# A cell of a table, an item of a list and a heading end a sentence as a full stop does.
_BREAK = re.compile(
    r"\n\s*\n|\n\s*(?=[-*+] |\d+\. |#|\|)|\||(?<=[.!?])[)*\"']*\s+|^#+ .*$", re.MULTILINE
)
_WORD = re.compile(r"[^\W_][\w'.,/-]*")


def lint(page: Path) -> Iterator[str]:
    """Yield what is wrong with a page, a line each."""
    checks = DEFAULT["checks"] | dict.fromkeys(_LEFT_OUT, False) | {"tidegauge": True}
    config = {"max_errors": 10_000, "checks": checks}
    for found in LintFile(str(page), _prose(page.read_text())).lint(config):
        line, column = found.pos
        message = " ".join(found.check_result.message.split())
        yield f"{_short(page)}:{line}:{column}: {message}"


def _short(page: Path) -> Path:
    return page.relative_to(ROOT) if page.is_relative_to(ROOT) else page


def _prose(text: str) -> str:
    """Blank what is no prose, at the same places; code within a sentence is one word of it."""
    for pattern in (*_CODE, _QUOTED):
        text = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    text = _INLINE.sub(lambda found: re.sub(r"[^\n]", "x", found[0]), text)
    return _ADDRESS.sub(lambda found: " " * len(found[0]), text)


def _long_sentences(text: str, check: Check) -> Iterator[CheckResult]:
    begin = 0
    for found in [*_BREAK.finditer(text), None]:
        end = len(text) if found is None else found.start()
        words = list(_WORD.finditer(text, begin, end))
        if len(words) > MOST_WORDS:
            message = f"A sentence of {len(words)} words: make it two."
            yield CheckResult(check.path, message, (words[0].start(), words[-1].end()), None)
        if found is not None:
            begin = found.end()


def register() -> None:
    """Add the project's checks to proselint's; once is enough."""
    vocabulary = tomllib.loads(_VOCABULARY.read_text())
    replaced = {word: one["name"] for one in vocabulary["term"] for word in one.get("not", [])}
    # Lines of a page may end within a phrase.
    plain = {
        phrase.replace(" ", r"[ \n] *"): instead
        for phrase, instead in (vocabulary["plain"] | replaced).items()
    }
    message = "Write '{}', not '{}'."
    registry = CheckRegistry()
    registry.register_many(proselint_checks)
    registry.register(Check(PreferredForms(plain), path="tidegauge.words", message=message))
    registry.register(Check(_long_sentences, path="tidegauge.sentences"))


def main(pages: list[Path]) -> int:
    """Print what is wrong with the pages; the status is 1 if anything is."""
    register()
    found = [one for page in pages for one in lint(page.resolve())]
    print("\n".join(found) or f"{len(pages)} pages: nothing to say")
    return bool(found)


if __name__ == "__main__":
    given = [Path(one) for one in sys.argv[1:]]
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
    sys.exit(main(given or pages))
