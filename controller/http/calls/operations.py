"""Calls of operators: is it alive, is it ready, what does it count."""

from fastapi import Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import Field

from controller.http.routing import ProcessOf, router_of
from controller.metrics.gauges import expose
from tidegauge.errors import UnhealthyError
from tidegauge.wire.values import Answer

router = router_of("operations")


class Health(Answer):
    """The answer while all is well."""

    status: str = Field(description="`ok`.")


@router.get("/healthz")
async def healthz(process: ProcessOf) -> Health:
    """Say that the process works; 503, with the reasons, if it should be restarted."""
    return _healthy(process.ailments())


@router.get("/readyz")
async def readyz(process: ProcessOf) -> Health:
    """Say that requests are served; 503, with the reasons, while they are not.

    A controller that stands by names the one that holds the database.
    """
    return _healthy(await process.obstacles())


def _healthy(reasons: list[str]) -> Health:
    if reasons:
        raise UnhealthyError(reasons)
    return Health(status="ok")


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(process: ProcessOf) -> Response:
    """Count, for Prometheus."""
    parts = process.tenure.parts if process.tenure is not None and process.holds else None
    gauges, holds = (None, False) if parts is None else (parts.gauges, parts.is_certain())
    exposed = await expose(process.metrics, gauges, holds=holds)
    return Response(exposed, media_type=CONTENT_TYPE_LATEST)
