"""Programs that tests start, and that end with them, and scripts that they look into."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

_SCRIPTS = Path(__file__).parents[1] / "scripts"


@contextmanager
def python(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Run Python, what it says being readable, and end it whatever happens."""
    pipe = subprocess.PIPE
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def script(name: str) -> ModuleType:
    """Import a script of this repository."""
    spec = spec_from_file_location(name, _SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
