"""A standalone cluster of Spark on this machine, whose workers have Python of their own."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark

from tests.patience import wait_until
from tests.server import free_port

_HOME = Path(next(iter(pyspark.__path__)))


@contextmanager
def standalone(folder: Path, *environments: Path) -> Iterator[str]:
    """Start a master and a worker for each environment, whose ``python3`` its executors start."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        master = "org.apache.spark.deploy.master.Master", "--port", str(port)
        stack.enter_context(_daemon(folder / "master", os.environ["PATH"], *master))
        wait_until(lambda: _listens(port))
        for environment in environments:
            path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
            worker = "org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g"
            work = folder / environment.name
            named = "--work-dir", str(work), address
            stack.enter_context(_daemon(work, path, *worker, *named))
        yield address


@contextmanager
def _daemon(folder: Path, path: str, *command: str) -> Iterator[None]:
    folder.mkdir()
    with (
        (folder / "said.log").open("wb") as said,
        subprocess.Popen(
            [
                _HOME / "bin" / "spark-class",
                *command,
                "--host",
                "127.0.0.1",
                "--webui-port",
                "0",
            ],
            cwd=folder,
            env=_without_python() | {"PATH": path, "SPARK_HOME": str(_HOME)},
            stdout=said,
            stderr=said,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _without_python() -> dict[str, str]:
    """Tell the environment without what would show the packages of the tests to another Python."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYSPARK_", "SPARK_"))
    }


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
