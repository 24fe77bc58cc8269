"""Calls of operators: is it alive, is it ready, what does it count."""

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import Field
from sqlalchemy import text

from controller.exposition import expose
from controller.http.routing import ServiceOf, StrictRoute
from tidegauge.wire.values import Answer

router = APIRouter(route_class=StrictRoute, tags=["operations"])


class Health(Answer):
    """The answer while all is well."""

    status: str = Field(description="`ok`.")


@router.get("/healthz")
async def healthz() -> Health:
    """Say that the process lives."""
    return Health(status="ok")


@router.get("/readyz")
async def readyz(service: ServiceOf) -> Health:
    """Say that the database answers; 503 while it does not."""
    await service.database.read(lambda connection: connection.execute(text("SELECT 1")))
    return Health(status="ok")


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(service: ServiceOf) -> Response:
    """Count, for Prometheus."""
    return Response(await expose(service), media_type=CONTENT_TYPE_LATEST)
