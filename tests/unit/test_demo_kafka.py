"""What is pure in the demo over Kafka: the gate of its queries, and what they were told."""

from threading import Thread
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from examples.flights.batches import cut
from examples.flights.kafka.again import _Reading
from examples.flights.kafka.gate import Gate
from examples.flights.kafka.queries import watermarks_told
from examples.flights.waiting import DemoFailedError
from tests.patience import wait_until


def test_a_gate_lets_all_through_once_and_holds_those_who_come_again() -> None:
    gate = Gate()
    passed: list[int] = []

    def query(number: int) -> None:
        for _ in range(2):
            gate.wait()
            passed.append(number)

    threads = [Thread(target=query, args=(number,)) for number in (1, 2)]
    for one in threads:
        one.start()
    wait_until(lambda: gate.waiting == 2)
    assert passed == []
    gate.open()
    wait_until(lambda: gate.waiting == 2)
    assert sorted(passed) == [1, 2]
    gate.remove()
    for one in threads:
        one.join(30)
    assert sorted(passed) == [1, 1, 2, 2]


class _Topics:
    """Makes queries that fail, and counts them."""

    def __init__(self, failure: str, progress: object = None) -> None:
        self.starts = 0
        self._query = SimpleNamespace(exception=lambda: failure, lastProgress=progress)

    def follow(self, _topic: object, *, after: object) -> Any:
        del after
        self.starts += 1
        return SimpleNamespace(query=self._query)

    guess = follow


@pytest.mark.parametrize(
    ("failure", "progress", "starts", "told"),
    [
        ("Python worker failed to connect back.", None, 4, "too busy .* run it again"),
        (
            "Python worker failed to connect back.",
            {"batchId": 0},
            1,
            "too busy .* run it again",
        ),
        ("out of memory", None, 1, "out of memory"),
    ],
)
def test_a_query_that_never_got_its_process_is_started_again(
    failure: str, progress: object, starts: int, told: str
) -> None:
    topics: Any = _Topics(failure, progress)
    copy: Any = SimpleNamespace(topic=None, write=lambda *_: None)
    reading = _Reading(topics, copy, Gate(), batches=2)
    next(reading.run())
    for _ in range(starts - 1):
        reading.check()
    with pytest.raises(DemoFailedError, match=told):
        reading.check()
    assert topics.starts == starts


def test_a_batch_tells_what_is_in_effect_in_the_next_one() -> None:
    in_effect = ["1970-01-01T00:00:00.000Z", "1970-01-01T00:00:05.000Z", "9999-12-31T00:00:00Z"]
    progress = [
        {"batchId": batch, "eventTime": {"watermark": watermark}}
        for batch, watermark in enumerate(in_effect)
    ]
    assert watermarks_told(progress).tolist() == [5_000, 253_402_214_400_000]


def test_batches_of_several_partitions_are_cut_in_each_where_they_ended() -> None:
    place = pd.MultiIndex.from_tuples([(0, 0), (0, 1), (1, 0), (1, 1)])
    arrivals = pd.DataFrame({"landed": [10, 30, 20, 40]}, index=place)
    ends = ['{"0": 1}', '{"0": 1, "1": 1}', '{"0": 2, "1": 2}']
    progress = [
        {"sources": [{"endOffset": f'{{"position": {end}, "bound": {bound}}}'}]}
        for end, bound in zip(ends, (5, 6, 9_223_372_036_854_775_807), strict=True)
    ]
    batches = cut(arrivals, progress)
    assert arrivals["batch"].tolist() == [0, 2, 1, 2]
    assert batches["rows"].tolist() == [1, 1, 2]
