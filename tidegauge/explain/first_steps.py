"""What an empty service teaches: commands that end with a moving watermark."""

import shlex

LOCAL_URL = "http://127.0.0.1:8470"
"""Where commands go that name no other service."""


def addressed(command: str, url: str) -> str:
    """Send a command of the command line to a service.

    Examples
    --------
    >>> addressed("tidegauge streams", LOCAL_URL)
    'tidegauge streams'
    >>> addressed("tidegauge streams", "http://gauge:8470/")
    'tidegauge streams --url http://gauge:8470'
    """
    url = url.rstrip("/")
    return command if url == LOCAL_URL else f"{command} --url {shlex.quote(url)}"


def first_commands(url: str) -> tuple[str, str, str]:
    """Return three commands for a shell: make a stream, note one time, and go on noting times."""
    note = addressed("tidegauge note-time demo/first sensor-1 $(date +%s)000", url)
    return (
        addressed("tidegauge create demo/first", url),
        note,
        f"while sleep 1; do {note}; done",
    )
