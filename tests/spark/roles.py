"""What Spark has each of its Python processes do; run by its name, with what Spark sends it.

The answer goes to the standard output, and behind it the names of all modules that were loaded.
"""

import sys
from typing import Any

from pyspark import cloudpickle


def _sent(value: Any) -> str:
    return str(cloudpickle.dumps(value).hex())  # type: ignore[no-untyped-call]


def plan_reads(source: Any) -> str:
    reader = source.streamReader(None)
    return _sent(reader.read)


def plan_batches(source: Any) -> str:
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start, None))
    reader.stop()
    return _sent(parts)


def read(task: Any) -> str:
    reads, parts = task
    return str(sum(batch.num_rows for part in parts for batch in reads(part)))


def write(sent: Any) -> str:
    source, schema, rows = sent
    sink = source.streamWriter(schema, overwrite=False)
    sink.commit([sink.write(iter([rows]))], 0)
    return "committed"


if __name__ == "__main__":
    role = {one.__name__: one for one in (plan_reads, plan_batches, read, write)}[sys.argv[1]]
    answer = role(cloudpickle.loads(bytes.fromhex(sys.stdin.read())))
    sys.stdout.write("\n".join((answer, *sys.modules)))
