"""The jars of a Kafka broker, of its tools and clients, and of Spark's connector, fetched by Maven once into a cache."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

_HERE = Path(__file__).parent
_OF_INTERCEPTOR = _HERE.parent / "examples" / "kafka_interceptor" / "pom.xml"


def broker_jars() -> Path:
    """Return the folder with the jars of a broker; fetch them if they are not there yet.

    Raises
    ------
    RuntimeError
        If Maven or Java is missing, or Maven cannot fetch them; it names the cure.
    """
    return _fetched("broker")


def producer_jars() -> Path:
    """Return the folder with Kafka's own tools and Connect, and the newest clients; see `broker_jars`."""
    return _fetched("producers")


def client_jars() -> Path:
    """Return the folder with the oldest clients that the interceptor works with; see `broker_jars`."""
    return _fetched("interceptor", pom=_OF_INTERCEPTOR)


def connector_jars() -> list[Path]:
    """List the jars of Spark's own Kafka connector, for ``spark.jars``; see `broker_jars`."""
    from spark_source.compatibility import KAFKA_CONNECTOR  # noqa: PLC0415 (a broker needs no Spark)

    folder = _fetched("connector", f"-Dspark.version={KAFKA_CONNECTOR}")
    return sorted(folder.glob("*.jar"))


def _fetched(name: str, *properties: str, pom: Path | None = None) -> Path:
    pom = pom or _HERE / f"{name}.pom.xml"
    version = sha256(pom.read_bytes() + "".join(properties).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "tidegauge" / f"{name}-{version}"
    if not folder.exists():
        maven = shutil.which("mvn")
        if maven is None:
            msg = "Maven is missing, which fetches the jars of Kafka; get it with: apt-get install maven"
            raise RuntimeError(msg)
        folder.parent.mkdir(parents=True, exist_ok=True)
        _fetch(maven, pom, folder, properties)
    return folder


def _fetch(maven: str, pom: Path, folder: Path, properties: Sequence[str]) -> None:
    """Fetch beside the folder and rename, so that it is there whole or not at all."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as partial:
        target = Path(partial) / folder.name
        goal = ("dependency:copy-dependencies", f"-DoutputDirectory={target}")
        command = [maven, "--batch-mode", "--quiet", "--file", str(pom), *properties, *goal]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            msg = f"Maven could not fetch the jars of Kafka: {done.stdout.strip()[:500]}"
            raise RuntimeError(msg)
        if not folder.exists():  # nobody was faster
            target.rename(folder)
