"""Lakehouse tables that know how far they are complete, read without Spark.

A table is a Delta table by its address, or with ``catalog=`` an Iceberg table by its name. With
``url=`` and ``stream=`` the marks of the service are taken, otherwise the notes of commits. Needs
the extra ``tables``.
"""

from tidegauge import extras as _extras

# Executors of Spark import parts of this package, and need not load its clients.
__getattr__, __dir__, __all__ = _extras.on_demand(__name__, "tables")
