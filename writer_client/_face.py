"""What both faces of a writer tell of it."""

from writer_client._core import WriterCore


class WriterFace:
    """A writer as its owner sees it; how it is called is up to each face."""

    _core: WriterCore

    @property
    def name(self) -> str:
        """The writer's name."""
        return self._core.calls.name

    @property
    def incarnation(self) -> int | None:
        """From the registration; None before `open`."""
        return self._core.calls.incarnation

    @property
    def watermark(self) -> int | None:
        """The newest watermark that this writer was told, ms."""
        return self._core.calls.watermark

    @property
    def position(self) -> dict[int, int]:
        """How far the events of this writer are stored, former incarnations included."""
        return self._core.position

    @property
    def unstored(self) -> int:
        """How many events were written and are not acknowledged."""
        return self._core.outbox.unstored
