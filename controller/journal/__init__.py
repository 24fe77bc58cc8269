"""How what happened to streams gets into their tables."""

from controller.journal.direct import Direct
from controller.journal.journal import Journal
from controller.journal.keeping import Keeping

__all__ = ["Direct", "Journal", "Keeping"]
