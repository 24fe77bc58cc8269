"""Fixtures of the tests of the service."""

from tests.service.fixtures import (
    log,
    one_authority,
    open_shop,
    own_cluster,
    short_leases,
)

__all__ = ["log", "one_authority", "open_shop", "own_cluster", "short_leases"]
