"""The clients of the embedded log are an implementation of the log port."""

import asyncio

from reader_client import AsyncStreamClient
from tidegauge.client.transport import Transport
from tidegauge.log import LogReader, LogWriter
from writer_client._client import WriterCalls

URL = "http://127.0.0.1:1"


def test_the_clients_of_the_embedded_log_have_the_faces_of_the_port() -> None:
    async def open_and_close() -> None:
        transport = Transport(URL)
        stream = AsyncStreamClient(URL, "tests/log")
        writer: LogWriter = WriterCalls(transport, "tests/log", "w")
        reader: LogReader = stream
        assert asyncio.iscoroutinefunction(writer.append)
        assert asyncio.iscoroutinefunction(reader.tail)
        assert asyncio.iscoroutinefunction(reader.topology)
        await stream.aclose()
        await transport.aclose()

    asyncio.run(open_and_close())
