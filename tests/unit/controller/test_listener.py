"""Where the service listens, and what it says if it cannot."""

import pytest

from controller.serving.server import (
    AddressUnusableError,
    address_of,
    listen,
    show_address,
)


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("", "0.0.0.0"), ("::1", "::1")],
)
def test_a_host_means_an_address_of_the_older_kind_if_it_has_one(
    host: str, address: str
) -> None:
    assert str(address_of(host)) == address


def test_an_address_of_the_newer_kind_is_written_as_in_urls() -> None:
    assert show_address("::1", 8470) == "[::1]:8470"


def test_an_address_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(AddressUnusableError) as refused:
            listen("127.0.0.1", port)
    assert str(refused.value) == f"cannot listen on 127.0.0.1:{port}: Address already in use"


def test_a_host_that_is_unknown_is_named() -> None:
    with pytest.raises(AddressUnusableError, match=r"^cannot listen on nosuch\.invalid: Name"):
        listen("nosuch.invalid", 0)
