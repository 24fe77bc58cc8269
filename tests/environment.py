"""Settings of a server of a test, as `tidegauge serve` reads them from its environment."""

import os

from controller import ServeSettings


def settings() -> ServeSettings:
    """Read the settings."""
    names = {f"TIDEGAUGE_{name.upper()}": name for name in ServeSettings.model_fields}
    given = {
        name: os.environ[variable] for variable, name in names.items() if variable in os.environ
    }
    return ServeSettings.model_validate(given)
