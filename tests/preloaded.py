"""Imported once in the process that forks servers: all that each of them would import itself."""

import gc
from importlib import import_module

_MODULES = (
    "anyio._backends._asyncio",
    "controller.serving.server",  # the package itself loads nothing
    "pandas",  # pyarrow loads it at the first append, if it is installed
    "uvicorn.lifespan.on",
    "uvloop",
)
for name in _MODULES:
    import_module(name)
# The collectors of forks leave this alone: to look at it costs as much as the rest of a start.
gc.freeze()
