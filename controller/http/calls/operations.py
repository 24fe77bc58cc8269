"""Calls of operators: is it alive, is it ready, what does it count."""

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import Field

from controller.http.routing import GaugesOf, HealthOf, MetricsOf, StrictRoute
from controller.metrics.gauges import expose
from tidegauge.errors import UnhealthyError
from tidegauge.wire.values import Answer

router = APIRouter(route_class=StrictRoute, tags=["operations"])


class Health(Answer):
    """The answer while all is well."""

    status: str = Field(description="`ok`.")


@router.get("/healthz")
async def healthz(health: HealthOf) -> Health:
    """Say that the process moves; 503, with the reasons, if it should be restarted."""
    return _healthy(health.ailments())


@router.get("/readyz")
async def readyz(health: HealthOf) -> Health:
    """Say that requests are served; 503, with the reasons, while they are not."""
    return _healthy(await health.obstacles())


def _healthy(reasons: list[str]) -> Health:
    if reasons:
        raise UnhealthyError(reasons)
    return Health(status="ok")


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(metrics: MetricsOf, gauges: GaugesOf) -> Response:
    """Count, for Prometheus."""
    return Response(await expose(metrics, gauges), media_type=CONTENT_TYPE_LATEST)
