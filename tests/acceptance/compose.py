"""docker-compose.yml, read as a container engine reads it."""

import re
from dataclasses import dataclass
from typing import Any

import yaml

from tests.linked import ROOT

PATH = ROOT / "docker-compose.yml"
EXAMPLES = re.findall(
    r"```yaml\n(.*?)```", (ROOT / "docs" / "how-to" / "deploy.md").read_text(), re.DOTALL
)
"""Files of the guide that override it."""
_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?::[-?]([^}]*))?\})")
_OURS = re.compile(r"tidegauge-(\w+):.*")


@dataclass(frozen=True, slots=True)
class Service:
    """One service.

    Attributes
    ----------
    name, image
        Its name, and that of its image.
    role
        The target in the Dockerfile; None if the image comes from elsewhere.
    builds
        The target that it builds; None if another service does.
    is_pulled
        Whether a registry is asked for its image.
    command
        Empty: the image's own.
    environment
        What the file sets.
    health
        The command that says whether it is well; empty if there is none.
    mounts
        Where volumes lie in the container; those of the repository with their path, the others
        with their name.
    needs
        Services that it waits for, with the condition.
    """

    name: str
    image: str
    role: str | None
    builds: str | None
    is_pulled: bool
    command: list[str]
    environment: dict[str, str]
    health: list[str]
    mounts: dict[str, str]
    needs: dict[str, str]


def read_services(
    variables: dict[str, str], *overrides: str, profiles: tuple[str, ...] = ()
) -> dict[str, Service]:
    """Read the services, with variables of the caller's environment and overriding files."""
    described = _filled(yaml.safe_load(PATH.read_text()), variables)["services"]
    services = {
        name: one
        for name, one in described.items()
        if not one.get("profiles") or {*one["profiles"]} & {*profiles}
    }
    for override in overrides:
        changed = _filled(yaml.safe_load(override), variables)["services"]
        for name in changed.keys() & services.keys():
            more = changed[name]
            services[name]["environment"] |= more.get("environment", {})
            services[name].setdefault("volumes", []).extend(more.get("volumes", ()))
    return {name: _service(name, described) for name, described in services.items()}


def _service(name: str, described: dict[str, Any]) -> Service:
    needs = described.get("depends_on", {})
    ours = _OURS.fullmatch(described["image"])
    builds = described.get("build", {}).get("target")
    mounts = (one.split(":") for one in described.get("volumes", ()))
    return Service(
        name,
        image=described["image"],
        role=ours[1] if ours else None,
        builds=builds,
        is_pulled=builds is None and described.get("pull_policy") != "never",
        command=described.get("command", []),
        environment=described["environment"],
        health=_health(described.get("healthcheck", {}).get("test", ["NONE"])),
        mounts={place: source for source, place, *_ in mounts},
        needs={one: needed["condition"] for one, needed in needs.items()},
    )


def _health(test: list[str]) -> list[str]:
    kind, *command = test
    return ["/bin/sh", "-c", *command] if kind == "CMD-SHELL" else command


def _filled(value: Any, variables: dict[str, str]) -> Any:
    """Put variables in wherever the file names them."""
    if isinstance(value, dict):
        return {key: _filled(one, variables) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, variables) for one in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _value(found, variables), value)
    return value


def _value(found: re.Match[str], variables: dict[str, str]) -> str:
    dollar, name, default = found.groups()
    return str(dollar or variables.get(name) or default)
