"""Clients share what they trust."""

from pathlib import Path

import pytest

from tests.certificates import Files
from tidegauge.client.transport import trust_for


def test_authorities_are_read_once_for_each_file_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    for number in range(2):
        directory = tmp_path / str(number)
        directory.mkdir()
        monkeypatch.setenv("SSL_CERT_FILE", str(Files(directory).authority))
        read.append(trust_for("https://one"))
        assert trust_for("HTTPS://other:8470") is read[-1]
        assert len(read[-1].get_ca_certs()) == 1
    assert read[0] is not read[1]


def test_no_authority_is_read_where_there_is_no_tls() -> None:
    assert trust_for("http://one") is trust_for("http://https:8470")
    assert trust_for("http://one").get_ca_certs() == []
