"""The images of the Dockerfile, as far as they exist without a container engine.

An image of a role holds what its extras bring. A virtual environment with exactly that, linked
from the packages of this one, shows whether it is enough, in a moment and without a download.
"""

import re
from pathlib import Path

import dockerfile

from tests.linked import ROOT, make_environment


class Images:
    """What the Dockerfile says of its stages."""

    def __init__(self) -> None:
        self.stages: dict[str, list[dockerfile.Command]] = {}
        for command in dockerfile.parse_file(str(ROOT / "Dockerfile")):
            if command.cmd == "FROM":
                stage = self.stages.setdefault(command.value[2], [])
            stage.append(command)

    def instructions(self, stage: str, name: str) -> list[tuple[str, ...]]:
        """List the instructions of a name in a stage and those that it is made from."""
        before = self.stages[stage][0].value[0]
        inherited = self.instructions(before, name) if before in self.stages else []
        return inherited + [one.value for one in self.stages[stage] if one.cmd == name]

    def bases(self) -> set[str]:
        """List the images that come from elsewhere."""
        return {stage[0].value[0] for stage in self.stages.values()} - self.stages.keys()

    def variables(self, role: str) -> dict[str, str]:
        """Read the environment of a role, without the path."""
        variables: dict[str, str] = {}
        for values in self.instructions(role, "ENV"):
            variables |= zip(values[::2], values[1::2], strict=True)
        return {name: value for name, value in variables.items() if name != "PATH"}

    def make_environment(self, role: str, directory: Path) -> Path:
        """Make the virtual environment of a role, and return the folder of its programs."""
        said = " ".join(one for (one,) in self.instructions(f"build-{role}", "RUN"))
        (extras,) = re.findall(r"'\.\[([\w,]+)\]'", said)
        return make_environment(directory, frozenset(extras.split(",")))
