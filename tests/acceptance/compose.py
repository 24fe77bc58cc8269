"""docker-compose.yml, read as a container engine reads it."""

import re
from typing import Any, NamedTuple

import yaml

from tests.linked import ROOT

PATH = ROOT / "docker-compose.yml"
EXAMPLES = re.findall(
    r"```yaml\n(.*?)```", (ROOT / "docs" / "how-to" / "deploy.md").read_text(), re.DOTALL
)
"""Files of the guide that override it."""
_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?::[-?]([^}]*))?\})")
_OURS = re.compile(r"tidegauge-(\w+):.*")


class Service(NamedTuple):
    """One service."""

    name: str
    image: str
    role: str | None
    """The target in the Dockerfile; None if the image comes from elsewhere."""
    builds: str | None
    """The target that it builds; None if another service does."""
    is_pulled: bool
    command: list[str]
    """Empty: the image's own."""
    environment: dict[str, str]
    health: list[str]
    """The command that says whether it is well; empty if there is none."""
    mounts: dict[str, str]
    """What lies where in the container: a path in the repository, or the name of a volume."""
    needs: dict[str, str]
    """Services that it waits for, with the condition."""


def read_services(
    variables: dict[str, str], *overrides: str, profiles: tuple[str, ...] = ()
) -> dict[str, Service]:
    """Read the services, with variables of the caller's environment and overriding files."""
    services = {
        name: one
        for name, one in _load(PATH.read_text(), variables).items()
        if not one.get("profiles") or {*one["profiles"]} & {*profiles}
    }
    for override in overrides:
        for name, more in _load(override, variables).items():
            if one := services.get(name):
                one["environment"] = one["environment"] | more.get("environment", {})
                one["volumes"] = [*one.get("volumes", ()), *more.get("volumes", ())]
    return {name: _service(name, described) for name, described in services.items()}


def _load(text: str, variables: dict[str, str]) -> dict[str, Any]:
    """Read the services of a file, with variables wherever it names them."""
    filled = _VARIABLE.sub(lambda it: it[1] or variables.get(it[2]) or it[3] or "", text)
    services: dict[str, Any] = yaml.safe_load(filled)["services"]
    return services


def _service(name: str, described: dict[str, Any]) -> Service:
    ours = _OURS.fullmatch(described["image"])
    builds = described.get("build", {}).get("target")
    kind, *health = described.get("healthcheck", {}).get("test", ["NONE"])
    mounts = (one.split(":") for one in described.get("volumes", ()))
    return Service(
        name,
        image=described["image"],
        role=ours[1] if ours else None,
        builds=builds,
        is_pulled=builds is None and described.get("pull_policy") != "never",
        command=described.get("command", []),
        environment={one: str(value) for one, value in described["environment"].items()},
        health=["/bin/sh", "-c", *health] if kind == "CMD-SHELL" else health,
        mounts={place: source for source, place, *_ in mounts},
        needs={one: it["condition"] for one, it in described.get("depends_on", {}).items()},
    )
