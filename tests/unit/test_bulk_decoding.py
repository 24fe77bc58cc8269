"""Many reports are read without keeping others waiting."""

import asyncio
import json

import pytest

from controller.http.messages.decoding import read_note_times

REPORT = {"stream": "tests/one", "writer": "w", "position": {}}


@pytest.mark.anyio
@pytest.mark.parametrize("time", ["2024-01-01T00:00:00Z", "soon"])
async def test_others_go_on_while_many_reports_are_read_thoroughly(time: str) -> None:
    body = json.dumps({"reports": [REPORT | {"time": time}] * 1_000}).encode()

    reading, turns_of_another = asyncio.create_task(read_note_times(body, 2**16)), 0
    while not reading.done():
        turns_of_another += 1
        await asyncio.sleep(0)
    assert len(reading.result()) == 1_000
    assert turns_of_another >= 10
