"""Calls about what another controller holds, passed on to it."""
