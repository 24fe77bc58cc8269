"""How many files, and so connections, the process may have open at once."""

import logging
import resource
from contextlib import suppress

_BESIDES = 500
"""Files, and connections of those who do not wait."""
_log = logging.getLogger(__name__)


def allow_open_files(long_polls: int) -> None:
    """Allow as many as the system lets us, and warn if so many long polls could use them up."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # a hard limit that says more than the system allows
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = long_polls + _BESIDES
    if allowed != resource.RLIM_INFINITY and allowed < needed:
        _log.warning(
            "%d open files are too few for max_long_polls of %d: "
            "allow %d (ulimit -Hn), or long polls may keep everybody out",
            allowed,
            long_polls,
            needed,
        )
