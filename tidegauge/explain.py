"""Explain: why the watermark is where it is, as data and in one sentence."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tidegauge.event_time import describe_event_time, looks_like_seconds
from tidegauge.marks import Mark
from tidegauge.topology import Position
from tidegauge.writers import WriterState

Reason: TypeAlias = Literal[
    "no_writers", "min_writers", "nobody_live", "joining", "holding", "caught_up", "sealed"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterStatus:
    """One writer, as operators see it.

    Attributes
    ----------
    writer, state, incarnation
        Who it is.
    time
        Latest noted in this incarnation, ms.
    position
        How far it reported, former incarnations too.
    behind_ms
        Event time between it and the furthest time that anybody noted.
    silent_ms
        Wall clock since it last spoke; None if it has not since the service started.
    holding_ms
        Listening time since its clock started; None if it does not run.
    expires_in_ms
        Listening time until its clock runs out.
    """

    writer: str
    state: WriterState
    incarnation: int
    time: int | None
    position: Position
    behind_ms: int | None
    silent_ms: int | None
    holding_ms: int | None
    expires_in_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why the watermark is where it is; the fields are those of the HTTP API."""

    reason: Reason
    sentence: str
    holders: list[WriterStatus]
    holder_count: int
    waiting: list[str]
    waiting_count: int
    next_expiry_ms: int | None
    hint: str | None


def explain(  # noqa: PLR0913 (everything that can be the reason)
    newest: Mark | None,
    *,
    writers: int,
    reporters: int,
    min_writers: int,
    holders: list[WriterStatus],
    holder_count: int,
    waiting: list[str],
    waiting_count: int,
    furthest: int | None,
) -> Explanation:
    """Choose the reason and say it.

    Parameters
    ----------
    newest
        Mark.
    writers, reporters
        How many there are now, and how many ever had a report accepted.
    min_writers
        The setting.
    holders, waiting
        The first few of each; ``holder_count`` and ``waiting_count`` are the whole numbers.
    furthest
        The greatest time that anybody noted, ms.
    """
    reason = _reason(
        newest,
        writers=writers,
        missing=min_writers - reporters,
        holders=holders,
        waiting_count=waiting_count,
    )
    at = "There is no mark yet" if newest is None else _stands_at(newest)
    expiries = [one.expires_in_ms for one in holders if one.expires_in_ms is not None]
    next_expiry = min(expiries, default=None)
    because = {
        "sealed": "the stream is sealed",
        "no_writers": "nobody writes; register a writer or note a time",
        "min_writers": f"{reporters} of {min_writers} writers reported; the others must, or "
        "min_writers be lowered",
        "nobody_live": "no writer is live: all left or expired",
        "joining": _hold_sentence(holders, holder_count, waiting_count, next_expiry),
        "holding": _hold_sentence(holders, holder_count, waiting_count, next_expiry),
        "caught_up": "every writer is there and nobody is ahead",
    }[reason]
    return Explanation(
        reason=reason,
        sentence=f"{at}: {because}.",
        holders=holders,
        holder_count=holder_count,
        waiting=waiting,
        waiting_count=waiting_count,
        next_expiry_ms=next_expiry,
        hint=_hint(furthest),
    )


def _reason(
    newest: Mark | None,
    *,
    writers: int,
    missing: int,
    holders: list[WriterStatus],
    waiting_count: int,
) -> Reason:
    if newest is not None and newest.final:
        return "sealed"
    if writers == 0:
        return "no_writers"
    if any(one.state == "joining" for one in holders):
        return "joining"
    if newest is None and missing > 0:
        return "min_writers"
    if holders and waiting_count:
        return "holding"
    return "caught_up" if holders or waiting_count else "nobody_live"


def _stands_at(newest: Mark) -> str:
    return f"The watermark stands at {describe_event_time(newest.lower)}"


def _hold_sentence(
    holders: list[WriterStatus], count: int, waiting: int, next_expiry_ms: int | None
) -> str:
    if not holders:
        return "nobody holds it"
    first = holders[0]
    what = "has not reported yet" if first.time is None else _is_behind(first)
    others = f" and {count - 1} more hold it" if count > 1 else " holds it"
    waits = f"{waiting} ahead wait{'s' if waiting == 1 else ''}" if waiting else "nobody waits"
    until = (
        ""
        if next_expiry_ms is None
        else f"; the first of them expires in {next_expiry_ms / 1000:.1f} s"
    )
    cure = " (let it note a time or leave, or expire it by hand)" if waiting else ""
    return f"writer {first.writer!r}, which {what},{others}; {waits}{until}{cure}"


def _is_behind(one: WriterStatus) -> str:
    silent = "" if one.silent_ms is None else f", silent for {one.silent_ms / 1000:.1f} s"
    return f"is {(one.behind_ms or 0) / 1000:.3f} s of event time behind{silent}"


def _hint(furthest: int | None) -> str | None:
    if furthest is not None and looks_like_seconds(furthest):
        return f"times such as {furthest} lie in early 1970; are they seconds?"
    return None
