"""Views: what a page says that it shows."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from tidegauge_dashboard.page.chart import SPANS_S
from tidegauge_dashboard.page.overview import PAGE_ROWS

_Text = Annotated[str, Field(max_length=600)]
Tab: TypeAlias = Literal["writers", "segments", "marks", "readers", "settings"]


class _View(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class OverviewView(_View):
    """The overview.

    Attributes
    ----------
    state, search
        Which streams are wanted.
    page
        Which of the pages of them, from 1 on.
    sort
        The column by which they are sorted, with ``-`` in front for the greatest first; empty for
        trouble first.
    rows
        The streams of the rows that are drawn, while one of them has the focus: they stay.
    """

    kind: Literal["overview"]
    state: _Text | None = None
    search: _Text = ""
    page: int = Field(1, ge=1, le=1_000_000)
    sort: _Text = ""
    rows: tuple[_Text, ...] | None = Field(None, max_length=PAGE_ROWS)


class StreamView(_View):
    """A stream.

    Attributes
    ----------
    stream
        ``scope/stream``.
    tab
        Which of its tabs.
    span
        How much of the past the chart shows, s.
    prefix
        The writers whose names begin so; empty for the slowest.
    sort
        The column by which the writers are sorted, as in `OverviewView`; empty for the slowest first.
    """

    kind: Literal["stream"]
    stream: _Text
    tab: Tab = "writers"
    span: int = SPANS_S[0]
    prefix: _Text = ""
    sort: _Text = ""


class GroupsView(_View):
    """The list of reader groups; the fields are as in `OverviewView`."""

    kind: Literal["groups"]
    search: _Text = ""
    page: int = Field(1, ge=1, le=1_000_000)
    sort: _Text = ""


class HelpView(_View):
    """What a watermark is, what the states mean, and which keys there are."""

    kind: Literal["help"]


class GroupView(_View):
    """A reader group, ``scope/group``."""

    kind: Literal["group"]
    group: _Text


View: TypeAlias = OverviewView | StreamView | GroupsView | GroupView | HelpView
_VIEWS: TypeAdapter[View] = TypeAdapter(Annotated[View, Field(discriminator="kind")])


def parse_view(text: str) -> View:
    """Read what a page shows; raises ``ValueError``."""
    return _VIEWS.validate_json(text)
