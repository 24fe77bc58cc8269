"""Encodings of many reports: what another one than JSON could win at most."""

import asyncio
import io
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import msgspec
import pyarrow as pa

from controller.configuration import ServeSettings
from controller.http.app import create_app
from controller.http.messages.decoding import PlainReport

_REPORTS = 500
_ROUNDS = 40
_SENDERS = 4
_STREAM = "bench/formats"
_POSITION = pa.map_(pa.int64(), pa.int64())


def measure() -> Iterator[tuple[str, str, str]]:
    """Compare reading JSON, msgpack and Arrow with all that a report costs."""
    rows = _rows(0)
    read = {
        "JSON": _best_us(msgspec.json.Decoder(_Reports).decode, _json(rows)),
        "msgpack": _best_us(msgspec.msgpack.Decoder(_Reports).decode, _msgpack(rows)),
        "Arrow IPC": _best_us(_read_arrow, _arrow(rows)),
    }
    size = {
        "JSON": len(_json(rows)),
        "msgpack": len(_msgpack(rows)),
        "Arrow IPC": len(_arrow(rows)),
    }
    for name, spent in read.items():
        yield (
            f"read a report of {_REPORTS}, {name}",
            f"{spent:.2f} µs",
            f"{size[name] / _REPORTS:.0f} bytes",
        )
    whole = asyncio.run(_whole_us())
    faster = whole / (whole - read["JSON"])
    yield (
        "note-times in the service, durable, for each report",
        f"{whole:.1f} µs",
        f"{faster:.2f} times as fast if reading cost nothing (worth building from 1.5)",
    )


class _Reports(msgspec.Struct):
    reports: list[PlainReport]


def _rows(round_number: int, sender: int = 0) -> list[dict[str, object]]:
    return [
        {
            "stream": _STREAM,
            "writer": f"writer-{sender}-{number:05}",
            "time": 1_700_000_000_000 + round_number,
            "position": {number % 2: round_number},
            "incarnation": 1,
        }
        for number in range(_REPORTS)
    ]


def _json(rows: list[dict[str, object]]) -> bytes:
    return json.dumps({"reports": rows}, separators=(",", ":")).encode()


def _msgpack(rows: list[dict[str, object]]) -> bytes:
    return msgspec.msgpack.encode({"reports": rows})


def _arrow(rows: list[dict[str, object]]) -> bytes:
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    positions = [list(one.items()) for one in columns.pop("position")]  # type: ignore[attr-defined]
    table = pa.table(columns | {"position": pa.array(positions, _POSITION)})
    table = table.set_column(0, "stream", table["stream"].dictionary_encode())
    written = io.BytesIO()
    with pa.ipc.new_stream(written, table.schema) as stream:
        stream.write_table(table)
    return written.getvalue()


def _read_arrow(body: bytes) -> list[PlainReport]:
    columns = pa.ipc.open_stream(body).read_all().to_pydict()
    columns["position"] = map(dict, columns["position"])
    named = (
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    )
    return [PlainReport(**row) for row in named]


def _best_us(read: Callable[[bytes], object], body: bytes) -> float:
    spent = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        read(body)
        spent.append(time.perf_counter() - began)
    return min(spent) / _REPORTS * 1e6


async def _whole_us() -> float:
    """Send reports to the application in process, several requests at a time."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'tidegauge.db'}"
        app = create_app(ServeSettings(database_url=url))
        await app.service.start()
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://bench") as client:
            settings = {"log": "external", "segments": 2}
            (await client.put(f"/v1/streams/{_STREAM}", json=settings)).raise_for_status()
            bodies = [
                [_json(_rows(number, sender)) for number in range(_ROUNDS)]
                for sender in range(_SENDERS)
            ]
            began = time.perf_counter()
            await asyncio.gather(*(_send(client, own) for own in bodies))
            spent = time.perf_counter() - began
        await app.service.close()
    return spent / (_SENDERS * _ROUNDS * _REPORTS) * 1e6


async def _send(client: httpx.AsyncClient, bodies: list[bytes]) -> None:
    headers = {"content-type": "application/json"}
    for body in bodies:
        answer = await client.post("/v1/note-times", content=body, headers=headers)
        answer.raise_for_status()
