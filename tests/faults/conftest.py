"""Fixtures of the tests of the service."""

from tests.service.fixtures import (
    api,
    log,
    observed,
    observed_of_two,
    one_authority,
    open_shop,
    own_cluster,
    short_leases,
)

__all__ = [
    "api",
    "log",
    "observed",
    "observed_of_two",
    "one_authority",
    "open_shop",
    "own_cluster",
    "short_leases",
]
