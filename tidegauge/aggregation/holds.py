"""The clocks that bound how long one writer can hold the watermark."""

from collections.abc import Iterable, Iterator

from tidegauge.aggregation.writers import Writer


class HoldClocks:
    """The clocks of the writers that hold the watermark still while others wait.

    A clock starts at the first pass that finds its writer holding while somebody waits, and is
    cleared by the first pass that does not: nothing that happens between two passes touches it.
    """

    def __init__(self) -> None:
        self._running: dict[Writer, None] = {}
        """In order of their start."""
        self._waiting_to_start: dict[Writer, None] = {}
        self._waiting_to_stop: dict[Writer, None] = {}
        self.changed: dict[str, int | None] = {}
        """Clocks that started or stopped, for storage."""

    def restore(self, writers: Iterable[Writer]) -> None:
        """Take in the clocks that run."""
        running = [one for one in writers if one.hold_since_ms is not None]
        for writer in sorted(running, key=lambda one: one.hold_since_ms or 0):
            self._running[writer] = None
            self._waiting_to_start.pop(writer, None)
            if not writer.holds:
                self._waiting_to_stop[writer] = None

    def shift(self, by_ms: int) -> None:
        """Let the clocks that run have started later; as it is stored, nothing changes."""
        for writer in self._running:
            writer.hold_since_ms = (writer.hold_since_ms or 0) + by_ms

    def begin_holding(self, writer: Writer) -> None:
        """Note that a writer holds; the next pass looks at it."""
        if writer in self._running:
            self._waiting_to_stop.pop(writer, None)
        else:
            self._waiting_to_start[writer] = None

    def end_holding(self, writer: Writer) -> None:
        """Note that a writer holds no longer; the next pass looks at it."""
        self._waiting_to_start.pop(writer, None)
        if writer in self._running:
            self._waiting_to_stop[writer] = None

    def clear(self, writer: Writer) -> None:
        """Stop a clock at once: its writer is no longer live."""
        self._waiting_to_stop.pop(writer, None)
        self._waiting_to_start.pop(writer, None)
        if writer in self._running:
            del self._running[writer]
            self._set(writer, None)

    def look(self, listening_ms: int, *, somebody_waits: bool) -> None:
        """Start and stop clocks, as a pass does before and after its marks."""
        if self._waiting_to_stop:
            for writer in self._waiting_to_stop:
                del self._running[writer]
                self._set(writer, None)
            self._waiting_to_stop.clear()
        if not somebody_waits:
            self._stop()
        elif self._waiting_to_start:
            self._start(listening_ms)

    def run_out(self, listening_ms: int, timeout_ms: int | None) -> list[Writer]:
        """List the writers whose clocks have run for the timeout."""
        found: list[Writer] = []
        if timeout_ms is not None:
            for writer in self._running:
                if (writer.hold_since_ms or 0) + timeout_ms > listening_ms:
                    break
                found.append(writer)
        return found

    def __iter__(self) -> Iterator[Writer]:
        """List the writers whose clocks run, in order of their start."""
        return iter(self._running)

    def __bool__(self) -> bool:
        return bool(self._running)

    def first_end(self, timeout_ms: int | None) -> int | None:
        """Say at which listening time the first clock runs out, ms; None if none does."""
        if timeout_ms is not None:
            for writer in self._running:
                return (writer.hold_since_ms or 0) + timeout_ms
        return None

    def _start(self, listening_ms: int) -> None:
        for writer in self._waiting_to_start:
            self._running[writer] = None
            self._set(writer, listening_ms)
        self._waiting_to_start.clear()

    def _stop(self) -> None:
        if self._running:
            for writer in self._running:
                self._set(writer, None)
                self._waiting_to_start[writer] = None
            self._running.clear()

    def _set(self, writer: Writer, since_ms: int | None) -> None:
        writer.hold_since_ms = since_ms
        self.changed[writer.name] = since_ms
