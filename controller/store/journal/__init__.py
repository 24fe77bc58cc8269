"""How what happened to streams gets into their tables."""

from controller.store.journal.change_store import ChangeStore
from controller.store.journal.direct import Direct
from controller.store.journal.journal import Journal

__all__ = ["ChangeStore", "Direct", "Journal"]
