"""Whose certificates the clients trust.

To read all authorities of the world takes 20 ms and more, and httpx does so for each client. A
context is only configuration: clients of any thread share it.
"""

import os
import ssl
from functools import cache

import httpx


def trust_for(url: str) -> ssl.SSLContext:
    """Trust whom httpx does, by ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``; nobody without TLS."""
    if url.lower().startswith("https:"):
        return _authorities(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    return _nobody()


@cache
def _authorities(_file: str | None, _directory: str | None) -> ssl.SSLContext:
    """Read them once for each that the environment names."""
    return httpx.create_ssl_context()


@cache
def _nobody() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
