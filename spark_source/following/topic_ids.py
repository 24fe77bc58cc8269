"""The id of a topic, which another one of its name does not have."""

import logging
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_PREFIX = "kafka."
_PATIENCE_S = 10
_log = logging.getLogger(__name__)


def topic_id(spark: SparkSession, topic: str, options: Mapping[str, str]) -> str | None:
    """Ask for the id of a topic as Spark's Kafka source would; None if that is not answered.

    Parameters
    ----------
    options
        Of that source. Its client is Spark's own, with the settings that begin with ``kafka.``.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 (no public way)
    try:
        settings = jvm.java.util.Properties()
        for name, value in options.items():
            if name.startswith(_PREFIX):
                settings.put(name.removeprefix(_PREFIX), value)
        admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
        try:
            asked = admin.describeTopics(jvm.java.util.Collections.singletonList(topic))
            seconds = jvm.java.util.concurrent.TimeUnit.SECONDS
            found = asked.allTopicNames().get(_PATIENCE_S, seconds).get(topic)
            return str(found.topicId().toString())
        finally:
            admin.close(jvm.java.time.Duration.ZERO)
    except (Py4JError, PySparkException, TypeError) as error:  # TypeError: no such class
        _log.warning(
            "the id of topic %r is not known, so that follow() will not notice if it is deleted and "
            "created again, or that of a mirror: %s",
            topic,
            str(error).partition("\n")[0],
        )
        return None
