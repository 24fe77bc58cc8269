"""Fixtures of the tests of the service."""

from tests.service.fixtures import (
    api,
    log,
    one_authority,
    open_shop,
    own_cluster,
    short_leases,
)

__all__ = ["api", "log", "one_authority", "open_shop", "own_cluster", "short_leases"]
