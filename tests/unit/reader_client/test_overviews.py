"""Until when a table is complete, as whoever reads it asks the service."""

from collections.abc import Iterator

import pytest

from reader_client import WatermarkTimeoutError
from tests.service.api import Api
from tests.service.in_process import Service
from tidegauge.event_time import END_OF_TIME
from tidegauge.tables import complete_until, version_at, wait_for

NOW = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _reached(service: Service) -> Iterator[None]:
    with service.reached_by_clients():
        yield


def test_whoever_reads_a_table_asks_for_its_version(service: Service) -> None:
    url = service.url
    api, rides = (Api(url, f"lake/{name}", transport=service) for name in ("hourly", "rides"))
    api.create(table="s3://lake/hourly", mark_resolution_ms=0)
    rides.create(log="embedded")
    assert version_at("hourly", NOW, url=url, stream=api.name) is None
    for time, offset in ((NOW, 33), (NOW + 1, 35)):
        api.note("nightly", time, offset)
        assert wait_for("hourly", time, timeout=20, url=url, stream=api.name) == offset - 1
    assert complete_until("hourly", url=url, stream=api.name) == NOW + 1
    with pytest.raises(WatermarkTimeoutError, match="nightly"):
        wait_for("hourly", NOW + 2, timeout=0, url=url, stream=api.name)
    with pytest.raises(ValueError, match="rides are no versions of a table; create one"):
        complete_until("hourly", url=url, stream=rides.name)
    with pytest.raises(ValueError, match="rides are no versions of a table"):
        version_at("hourly", NOW, url=url, stream=rides.name)
    api.post("seal", position={"0": 36})
    assert wait_for("hourly", NOW + 2, timeout=20, url=url, stream=api.name) == 35
    assert complete_until("hourly", url=url, stream=api.name) == END_OF_TIME
