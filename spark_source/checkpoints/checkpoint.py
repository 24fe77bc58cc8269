"""What a query's checkpoint says of a batch: who asks, how far its sources go, what may be noted."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import fs

from spark_source.checkpoints.table_ticks import without_followed_tables
from spark_source.checkpoints.ticks import without_followed_topics
from spark_source.columns import LAST_WATERMARK
from spark_source.errors import CheckpointError, GuessedWatermarkError
from spark_source.options.times import LEAST_KEPT
from tidegauge.event_time import END_OF_TIME, describe_event_time

_BY_PLACE, _BY_NAME = "v1", "v2"
"""Formats of Spark's offset log: a line a source, in the second one after its name and a colon."""
_NO_OFFSET = "-"
_IDS = {"stream_id", "table_id"}
"""Offsets of ours have a bound, and one of these."""
WATERMARK_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


class Promise(NamedTuple):
    """What a query may promise behind a batch.

    Attributes
    ----------
    time
        Nothing below it will be emitted, ms; None if nothing is known.
    is_end
        Whether nothing will be emitted at all.
    """

    time: int | None
    is_end: bool


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """A batch as Spark planned it.

    Attributes
    ----------
    is_stateful
        Whether the query has operators with state.
    watermark
        Spark's watermark in this batch, ms; 0 while there is none.
    ends
        Where each source was read to, as its own JSON; None of one that was not asked yet.
    """

    is_stateful: bool
    watermark: int
    ends: Sequence[Any]

    def promise(self, output_delay_ms: int, *, strictly: bool = False) -> Promise:
        """Return what may be noted behind it, if rows may be so much older than the watermark.

        A stateful query emits nothing at or below Spark's watermark any more. One without state
        has none, but hands on what it reads: nothing below the least bound of its sources. A
        source that is none of ours has no bound, unless `follow` gives it one.

        Raises
        ------
        GuessedWatermarkError
            If a stateful query's watermark is not one that the bounds of its sources have reached;
            strictly, if any query reads a source that has no bound.
        """
        ends = without_followed_tables(without_followed_topics(self.ends))
        bounds = [end["bound"] if _is_ours(end) else None for end in ends]
        known = [bound for bound in bounds if bound is not None]
        reached = min(known) if known and len(known) == len(bounds) else None
        is_end = reached == END_OF_TIME
        if strictly:
            self._check_known(ends)
        if self.is_stateful:
            if not self.watermark or None in ends:
                return Promise(None, is_end=False)
            self._check_reached(reached, ends)
            reached, is_end = self.watermark, self.watermark >= LAST_WATERMARK
        if reached is None or is_end:
            return Promise(None, is_end)
        return Promise(reached - output_delay_ms, is_end=False)

    def _check_reached(self, bound: int | None, ends: Sequence[Any]) -> None:
        """Refuse a watermark of which Spark has dropped rows, or may have.

        Bounds drive it one batch later, so that it is never above the least of this batch. A
        guess is, and so is the greatest of several bounds.
        """
        self._check_known(ends)
        if bound is None or self.watermark > max(bound, LEAST_KEPT):
            reached = "no time yet" if bound is None else describe_event_time(bound)
            at = describe_event_time(self.watermark)
            problem = f"it is at {at}, and its sources have all reached {reached}"
            cure = f"leave out withWatermark(), and leave {WATERMARK_POLICY} at 'min'"
            raise GuessedWatermarkError(problem, f"{cure}, and start with a new checkpoint")

    @staticmethod
    def _check_known(ends: Sequence[Any]) -> None:
        """Refuse a source that has no bound; one that was not asked yet may have one."""
        if not all(end is None or _is_ours(end) for end in ends):
            problem = "it reads a source that is neither a stream of ours nor followed"
            cure = "load each stream with read_stream(), or follow() its topic or its table"
            raise GuessedWatermarkError(problem, f"{cure}, and start with a new checkpoint")


class Checkpoint:
    """Reads a checkpoint where the query's driver has it.

    Parameters
    ----------
    location
        As Spark was given it: a path, or the address of a file system that pyarrow knows.
    """

    def __init__(self, location: str) -> None:
        self._location = location
        try:
            self._files, self._root = fs.FileSystem.from_uri(place_of(location))
        except (pa.ArrowException, OSError) as error:
            raise CheckpointError(location, str(error)) from error

    def query_id(self) -> str:
        """Return the id that the query keeps over restarts."""
        metadata: dict[str, str] = json.loads(self._read("metadata"))
        return metadata["id"]

    def own_word(self, name: str) -> str | None:
        """Return the word of ours that is in the checkpoint; None if there is none."""
        found = self._files.get_file_info(f"{self._root}/{name}")
        return None if found.type == fs.FileType.NotFound else self._read(name)

    def leave_own_word(self, name: str, word: str) -> None:
        """Leave a word of ours in the checkpoint, in place of the one before."""
        path = f"{self._root}/{name}"
        # An object store replaces an object as a whole; a file might be left half written.
        is_local = isinstance(self._files, fs.LocalFileSystem)
        written = f"{path}.new" if is_local else path
        with self._files.open_output_stream(written) as file:
            file.write(word.encode())
        if is_local:
            self._files.move(written, path)

    def batch(self, number: int) -> LoggedBatch:
        """Return a batch."""
        watermark, ends = self._entry(number)
        state = self._files.get_file_info(f"{self._root}/state")
        is_stateful = state.type == fs.FileType.Directory
        return LoggedBatch(is_stateful=is_stateful, watermark=watermark, ends=ends)

    def newest_ends(self) -> Sequence[Any]:
        """Return how far each source was planned in the newest batch; nothing before the first.

        See `LoggedBatch.ends`.
        """
        selector = fs.FileSelector(f"{self._root}/offsets", allow_not_found=True)
        try:
            found = self._files.get_file_info(selector)
        except OSError as error:
            raise CheckpointError(self._location, str(error)) from error
        # Beside them are checksums, and what is being written.
        numbers = [int(one.base_name) for one in found if one.base_name.isdigit()]
        return self._entry(max(numbers))[1] if numbers else []

    def _entry(self, number: int) -> tuple[int, Sequence[Any]]:
        """Read an entry of the offset log: Spark's watermark, and where each source ends."""
        version, metadata, *lines = self._read(f"offsets/{number}").splitlines()
        if version == _BY_NAME:
            lines = [line.partition(":")[2] for line in lines]
        elif version != _BY_PLACE:
            problem = f"offsets/{number} is of format {version}, not {_BY_PLACE} or {_BY_NAME}"
            raise CheckpointError(self._location, problem)
        ends = [None if line == _NO_OFFSET else json.loads(line) for line in lines]
        return json.loads(metadata)["batchWatermarkMs"], ends

    def _read(self, name: str) -> str:
        try:
            with self._files.open_input_stream(f"{self._root}/{name}") as file:
                content: bytes = file.read()
        except OSError as error:
            raise CheckpointError(self._location, str(error)) from error
        return content.decode()


def place_of(location: str) -> str:
    """Write a path, or the address of a folder in a file system, as Arrow does, and in one way."""
    # Spark writes file:/tmp/x; a relative path is one of the driver's working directory.
    local = re.sub("^file:(//(?=/))?", "", location)
    scheme, is_remote, path = local.partition("://")
    if not is_remote:
        return re.sub("^//", "/", os.path.abspath(local))  # noqa: PTH100 (kept as it is)
    # Hadoop's names of what Arrow calls s3; it joins slashes, too.
    return f"{re.sub('^s3[an]$', 's3', scheme)}://{os.path.normpath(path)}"


def _is_ours(end: Any) -> bool:  # noqa: ANN401 (of any source)
    return isinstance(end, dict) and "bound" in end and not end.keys().isdisjoint(_IDS)
