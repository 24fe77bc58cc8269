"""Options of `tidegauge serve` about who is let in, and how much is taken."""

from pathlib import Path
from typing import Annotated, Any

import typer


def _option(name: str, description: str) -> Any:  # noqa: ANN401 (typer's description)
    return typer.Option(
        "--" + name.replace("_", "-"), envvar=f"TIDEGAUGE_{name.upper()}", help=description
    )


Tokens = Annotated[
    Path | None, _option("tokens", "File of the tokens that are let in; see `token new`.")
]
TlsCertificate = Annotated[
    Path | None, _option("tls_certificate", "Speak TLS with this certificate (PEM).")
]
TlsKey = Annotated[
    Path | None, _option("tls_key", "Its key (PEM), unless it is in the same file.")
]
Insecure = Annotated[
    bool, _option("insecure", "Listen beyond this machine although nobody is asked.")
]
MaxNameLength = Annotated[
    int, _option("max_name_length", "Refuse longer names of what is new; at most 255.")
]
MaxPositionSegments = Annotated[
    int, _option("max_position_segments", "Refuse positions that name more segments.")
]
MaxWritersPerStream = Annotated[
    int, _option("max_writers_per_stream", "Refuse more writers of one stream.")
]
MaxStreams = Annotated[int, _option("max_streams", "Refuse more streams.")]
MaxGroups = Annotated[int, _option("max_groups", "Refuse more reader groups.")]
MaxLongPolls = Annotated[int, _option("max_long_polls", "Let so many calls wait for news.")]
