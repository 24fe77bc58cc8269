"""Hypothesis profiles: ``TIDEGAUGE_PROPERTY_PROFILE=hunt`` looks much longer, at random."""

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

from tests.effort import Effort

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "fixed",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=250,
    suppress_health_check=_SLOW,
)
settings.register_profile(
    "hunt",
    deadline=None,
    database=None,
    max_examples=int(os.environ.get("TIDEGAUGE_PROPERTY_EXAMPLES", "10_000")),
    print_blob=True,
    suppress_health_check=_SLOW,
)
settings.load_profile(os.environ.get("TIDEGAUGE_PROPERTY_PROFILE", "fixed"))


@pytest.fixture
def effort(record_property: Callable[[str, object], None]) -> Effort:
    """How often a test that has a long form tries."""
    return Effort(record_property, soaks="TIDEGAUGE_SOAK" in os.environ)
