"""A service in this process, and a client of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from controller.configuration import ServeSettings
from controller.http.app import ControllerApp, create_app


@asynccontextmanager
async def in_process(
    settings: ServeSettings, *, address: str = ""
) -> AsyncIterator[tuple[ControllerApp, httpx.AsyncClient]]:
    """Start a service, and end it."""
    app = create_app(settings, address=address)
    await app.service.start()
    transport = httpx.ASGITransport(app)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://tests") as client:
            yield app, client
    finally:
        await app.service.close()
        await app.aclose()
