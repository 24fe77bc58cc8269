"""The whole service under virtual time: a seed decides all that happens, and repeats it exactly.

Real controllers (application, sequencer, SQLAlchemy, leases) and the real asynchronous
clients run in one thread. What is around them is simulated, each part in a module of its own:

==============  =================================================================================
module          what it simulates, or does
==============  =================================================================================
``clocks``      the clocks of Python, replaced before anybody binds them
``choices``     all that is random: a generator for each kind of choice and of fault
``kernel``      the event loop: processes (nodes), whose turn it is, kills and pauses
``threads``     threads as queues in virtual time
``disk``        the database that outlives its controllers, and what happens to transactions
``databases``   how one controller uses it, or several of which one holds it
``dialect``     statements for PostgreSQL, as SQLite takes them
``network``     requests between nodes, and what happens to them
``cluster``     controllers that start, end, die, and are started again
``ledger``      what the clients did, were told and saw
``world``       all of these, and the processes of clients
``clients``     writers, readers, watchers and operators
``rivals``      two callers of one name at once
``scenario``    who does what in a run, and when faults happen
``judge``       what must hold at the end
``run``         one run from its seed to its verdict
``quiet``       a world without chance, for tests that would wait for clocks
``defects``     defects to be planted in the product
``shrinking``   the fewest faults with which a run fails
==============  =================================================================================

``python -m tests.simulation SEED`` repeats a run.
"""
