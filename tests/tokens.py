"""Tokens for tests: made, written to a file, and shown in a header."""

from datetime import timedelta
from pathlib import Path

from controller.access.callers import Role
from controller.access.tokens import append_token, new_token


class Tokens:
    """Makes tokens for a service that reads a file of them.

    Parameters
    ----------
    directory
        Where the file goes.
    """

    def __init__(self, directory: Path) -> None:
        self.file = directory / "tokens.toml"
        self.file.write_text("# nobody yet\n")

    def text(self, name: str, scope: str, *roles: str, lasts: timedelta | None = None) -> str:
        """Add a token, and return it."""
        made = new_token(name, {scope: {Role(role) for role in roles}}, lasts=lasts)
        append_token(self.file, made.stored)
        return made.text

    def header(
        self, name: str, scope: str, *roles: str, lasts: timedelta | None = None
    ) -> dict[str, str]:
        """Add a token, and return the header that shows it."""
        return {"authorization": f"Bearer {self.text(name, scope, *roles, lasts=lasts)}"}
