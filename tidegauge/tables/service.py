"""What the service knows of a table: a stream of one segment whose offsets are versions."""

from datetime import timedelta

from tidegauge.client.stream_calls import StreamCalls
from tidegauge.client.sync import LoopThread
from tidegauge.client.transport import Transport
from tidegauge.names import StreamName
from tidegauge.wire.streams import StreamConfig, StreamInfo

SEGMENT = 0
"""The only one of a table."""


def check_stream(stream: str, config: StreamConfig) -> None:
    """Raise `ValueError` if the offsets of a stream cannot be the versions of a table."""
    if (config.log, config.max_segments) != ("external", 1):
        cure = "create one of its own with log external, segments 1"
        msg = f"the offsets of {stream} are no versions of a table; {cure}"
        raise ValueError(msg)


class ServiceMarks:
    """The marks of a stream of a table.

    Parameters
    ----------
    url, stream, token
        Of the service, or of each of its controllers, with commas between.

    Raises
    ------
    ValueError
        If there is no stream.
    """

    def __init__(self, url: str, stream: str | None, token: str | None) -> None:
        if stream is None:
            msg = "url= needs stream=, the stream to which the writers of the table note time"
            raise ValueError(msg)
        self._transport = Transport(url, token=token)
        self._stream = stream
        self._calls = StreamCalls(self._transport, StreamName.parse(stream))
        self._thread = LoopThread("tidegauge-table")

    def watermark(self) -> int | None:
        """Return until when the table is complete, ms."""
        return self._described().watermark

    def until_at(self, version: int) -> int | None:
        """Return until when a version is complete, ms: by the newest mark that it covers."""
        self._described()
        window = self._thread.run(self._calls.marks_at_position({SEGMENT: version + 1}))
        return window.lower

    def version_at(self, time: int) -> int | None:
        """Find the version at which it is complete until a time; None if it is not yet."""
        self._described()
        stop = self._thread.run(self._calls.marks_at_time(time)).stop
        return None if stop is None else stop.to_mark().cut[SEGMENT] - 1

    def wait_for(self, time: int, timeout: timedelta | None) -> int:
        """Wait until it is complete until a time, and return its version then."""
        self._described()
        self._thread.run(self._calls.wait_until(time, timeout))
        version = self.version_at(time)
        assert version is not None  # noqa: S101 (the mark that was waited for is there)
        return version

    def _described(self) -> StreamInfo:
        info = self._thread.run(self._calls.describe())
        check_stream(self._stream, info.config)
        return info

    def close(self) -> None:
        """Close the connections."""
        self._thread.end(self._transport.aclose)
