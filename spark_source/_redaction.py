"""ChangeStore tokens out of what Spark Connect tells about requests.

Spark leaves tokens out of plans by itself, but a Connect server writes each request into its
event log and its pages as it came, options included.
"""

from pyspark.sql import SparkSession

_SETTING = "spark.sql.redaction.string.regex"
_OPTION = r'(?i)key: "token"\s+value: "[^"]*"'


def hide_tokens(spark: SparkSession) -> None:
    """Make a session over Spark Connect redact tokens, and what it redacted before."""
    if getattr(spark, "_sc", None) is not None:
        return
    former = spark.conf.get(_SETTING, "")
    if _OPTION not in (former or ""):
        spark.conf.set(_SETTING, f"{former}|{_OPTION}" if former else _OPTION)
