"""Verbs that ask a service and print its answer."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic_core import to_json

from tidegauge.client.outage import TAKE_OVER, Log
from tidegauge.errors import TidegaugeError
from tidegauge.wire.writers import Watermark
from tidegauge_cli.listing import print_line
from tidegauge_cli.options import LOCAL, Json, Token, Url

if TYPE_CHECKING:
    from tidegauge.client.transport import Transport

# Somebody sits in front of most verbs, and would rather learn soon that an address is wrong.
_FIRST_CONTACT = timedelta(seconds=3)
# Typer shows the type of what a parser makes; what is typed is text.
_TYPED = type("text", (), {})

_A = TypeVar("_A", bound=BaseModel)
_T = TypeVar("_T")
_V = TypeVar("_V", bound=Callable[..., None])


class Service:
    """One service, asked once or more."""

    def __init__(self, transport: "Transport") -> None:
        self.transport = transport

    async def get(self, path: str, answer: type[_A], **params: object) -> _A:
        """Read something."""
        return await self.transport.request(
            "GET", path, answer=answer, retry=True, params=params
        )

    async def explain(self, path: str) -> Watermark:
        """Read why the watermark of a stream stands, with a command that names this service."""
        found = await self.get(f"{path}/watermark", Watermark)
        return found.addressed(self.transport.url)

    async def post(self, path: str, answer: type[_A], body: BaseModel | None = None) -> _A:
        """Change something; repeated only when certainly nothing was done."""
        return await self.transport.request("POST", path, answer=answer, retry=False, body=body)

    async def pages(self, path: str, answer: type[_A], **params: object) -> AsyncIterator[_A]:
        """Read a whole list, page by page."""
        cursor: Any = None
        while True:
            page = await self.get(path, answer, limit=1_000, cursor=cursor, **params)
            yield page
            cursor = page.model_dump(include={"cursor"})["cursor"]
            if cursor is None:
                return


def warn(text: str) -> None:
    """Print something that is no answer."""
    print_line(f"tidegauge: {text}", sys.stderr)


class Session(NamedTuple):
    """What --url, --token and --json say."""

    url: str
    token: str | None
    as_json: bool = False

    def ask(
        self,
        work: Callable[[Service], Awaitable[_T]],
        *,
        log: Log = warn,
        retry_for: timedelta = TAKE_OVER,
        first_contact: timedelta | None = _FIRST_CONTACT,
    ) -> _T:
        """Do something with the service; an error ends the program with its message."""
        # httpx takes its own command line along, with Pygments: a third of what its import costs.
        sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
        from tidegauge.client.transport import Transport  # noqa: PLC0415 (no help needs it)

        async def run() -> _T:
            transport = Transport(
                self.url,
                token=self.token,
                retry_for=retry_for,
                first_contact=first_contact,
                log=log,
            )
            async with aclosing(transport):
                return await work(Service(transport))

        try:
            return asyncio.run(run())
        except (TidegaugeError, ValueError) as error:
            sys.exit(f"tidegauge: {error}")

    def show(
        self, answer: BaseModel | Mapping[str, object] | Sequence[object], *lines: str
    ) -> None:
        """Print the answer to a program, or lines for people."""
        if self.as_json:
            print(to_json(answer, indent=2).decode())
            return
        for line in lines:
            print_line(line, sys.stdout)


def _options(*, url: Url = LOCAL, token: Token = None, as_json: Json = False) -> None:
    """Name the options that every verb has which asks a service."""


def asks(
    group: typer.Typer,
    example: str,
    *,
    settings: Sequence[Parameter] = (),
    takes_time: bool = False,
) -> Callable[[_V], _V]:
    """Make a function a verb: its parameters, but for the session, are the verb's.

    It takes the settings as ``**settings``. A time below zero looks like an option, which a verb
    that takes a time has to let through.
    """

    def register(work: _V) -> _V:
        def verb(*, url: str, token: str | None, as_json: bool, **options: Any) -> None:  # noqa: ANN401 (typer read them)
            work(Session(url, token, as_json), **options)

        _, *own = signature(work).parameters.values()
        named = [_as_typed(one) for one in own if one.kind is not Parameter.VAR_KEYWORD]
        shared = signature(_options).parameters.values()
        verb.__dict__["__signature__"] = Signature([*named, *settings, *shared])
        verb.__doc__ = work.__doc__
        group.command(
            work.__name__.replace("_", "-"),
            epilog=f"Example: tidegauge {example}",
            context_settings={"ignore_unknown_options": takes_time},
        )(verb)
        return work

    return register


def _as_typed(parameter: Parameter) -> Parameter:
    if parameter.default is not Parameter.empty:
        return parameter
    kind, how = get_args(parameter.annotation)
    typed = list[_TYPED] if get_origin(kind) is list else _TYPED  # type: ignore[valid-type]
    return parameter.replace(annotation=Annotated[typed, how])
