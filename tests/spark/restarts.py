"""Checkpoints as a crash at any point would have left them."""

import shutil
from pathlib import Path


def crashed(whole: str, folder: Path, batch: int) -> str:
    """Copy a checkpoint as it was after a batch's entry in the offset log, before its commit."""
    checkpoint = Path(shutil.copytree(whole, folder / f"crashed-{batch}"))
    _cut_log(checkpoint / "offsets", batch)
    _cut_log(checkpoint / "commits", batch - 1)
    return str(checkpoint)


def _cut_log(log: Path, last: int) -> None:
    for entry in log.iterdir():
        number = entry.name.removeprefix(".").removesuffix(".crc")
        if number.isdigit() and int(number) > last:
            entry.unlink()
