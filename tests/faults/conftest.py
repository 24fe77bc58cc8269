"""Fixtures of the tests of the service."""

from tests.service.fixtures import *  # noqa: F403 (they are found by their names)
