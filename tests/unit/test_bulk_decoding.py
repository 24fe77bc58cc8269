"""Many reports are read without keeping others waiting."""

import asyncio
import json
from itertools import count

import pytest

from controller.http.messages.decoding import read_note_times

REPORT = {"stream": "tests/one", "writer": "w", "position": {}}


@pytest.mark.parametrize("time", ["2024-01-01T00:00:00Z", "soon"])
def test_others_go_on_while_many_reports_are_read_thoroughly(time: str) -> None:
    body = json.dumps({"reports": [REPORT | {"time": time}] * 1_000}).encode()

    async def turns_of_another() -> int:
        reading = asyncio.create_task(read_note_times(body, 2**16))
        for turns in count():
            if reading.done():
                assert len(reading.result()) == 1_000
                return turns
            await asyncio.sleep(0)
        raise AssertionError

    assert asyncio.run(turns_of_another()) >= 10
