"""Options of `tidegauge serve` about who is let in."""

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
