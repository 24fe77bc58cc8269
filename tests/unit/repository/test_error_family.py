"""Who catches a base catches what the documentation says that it stands for."""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import reader_client
import writer_client
from tidegauge.errors import (
    ProblemError,
    ReportRefusedError,
    TidegaugeError,
    WriterError,
    WriterFencedError,
)
from writer_client import ClientClosedError, EventsNotStoredError, WriterClosedError

EXPORTED = [
    getattr(client, name)
    for client in (writer_client, reader_client)
    for name in client.__all__
    if name.endswith("Error")
]


def test_the_errors_of_the_clients_are_one_family() -> None:
    assert all(issubclass(error, TidegaugeError) for error in EXPORTED)
    for client in (reader_client, writer_client):
        assert getattr(client, "ProblemError") is ProblemError  # noqa: B009 (not a listed name)
    assert issubclass(ReportRefusedError, ProblemError)
    of_a_writer = WriterFencedError, WriterClosedError, EventsNotStoredError, ReportRefusedError
    assert all(issubclass(error, WriterError) for error in of_a_writer)
    assert issubclass(WriterClosedError, ClientClosedError)


def test_threads_may_be_the_first_to_raise_an_error_at_once() -> None:
    names = [f"place{number}" for number in range(20)]
    kinds = [
        type(f"Error{number}", (ProblemError,), {"__annotations__": dict.fromkeys(names, str)})
        for number in range(100)
    ]
    together = Barrier(8, timeout=10)

    def raise_each() -> list[str]:
        places = []
        for kind in kinds:
            together.wait()
            places.append(kind(*names).place19)
        return places

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            raised = [threads.submit(raise_each) for _ in range(8)]
            assert [each.result() for each in raised] == [["place19"] * len(kinds)] * 8
    finally:
        sys.setswitchinterval(usual)
