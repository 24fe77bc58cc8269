"""Pages of reports are read back as they were stored, by this version or before it."""

from controller.store.changes import load_page
from tidegauge.aggregation.changes import StoredPage


def test_a_page_says_when_the_writers_of_its_reports_had_last_spoken() -> None:
    page = load_page(3, '[[1,"a",5,{"0":2},1700000000000],[2,"b",6,{},1700000000001]]')
    reports = [(1, "a", 5, {0: 2}, 1_700_000_000_000), (2, "b", 6, {}, 1_700_000_000_001)]
    assert page == StoredPage(3, reports)


def test_a_page_of_before_does_not_say_when_they_had_spoken() -> None:
    assert load_page(4, '[[1,"a",5,{"0":2}]]') == StoredPage(4, [(1, "a", 5, {0: 2}, None)])
