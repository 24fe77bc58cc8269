"""The address of a database, and how it is shown."""

from dataclasses import dataclass

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from controller.database.interface import DatabaseUnusableError

_FORMS = "write sqlite:///PATH or postgresql://USER@HOST/NAME"


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """Where a database is; its text is safe to show, since it leaves out the password."""

    url: URL

    @classmethod
    def parse(cls, text: str) -> "DatabaseAddress":
        """Read an address; one that cannot be served is not repeated: it may hold a password."""
        try:
            url = make_url(text)
        except (ArgumentError, ValueError):
            msg = f"the database address cannot be read; {_FORMS}"
            raise DatabaseUnusableError(msg) from None
        backend = url.get_backend_name()
        if backend in {"postgresql", "postgres"}:
            return cls(url.set(drivername="postgresql+psycopg"))
        if backend != "sqlite" or not url.database:
            msg = f"a {backend} database at this address cannot be served; {_FORMS}"
            raise DatabaseUnusableError(msg)
        return cls(url)

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file of SQLite."""
        return self.url.get_backend_name() == "sqlite"

    def __repr__(self) -> str:
        return f"DatabaseAddress({self})"

    def __str__(self) -> str:
        if self.is_sqlite:
            return f"sqlite:///{self.url.database}"
        places = {one: self.url.query[one] for one in ("host", "port") if one in self.url.query}
        shown = self.url.set(drivername="postgresql", query=places)._replace(password=None)
        return shown.render_as_string().replace("%2F", "/")
