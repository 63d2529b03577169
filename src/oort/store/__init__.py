"""What survives: a journal of what was acknowledged, and snapshots, in a real database.

From the call down to the disk:

    opening        from an address to a selector: create, take the lease, recover
    jobs           the right kind of selector for a job
    durable        a training selector whose calls are committed when they return
    testing        the same for a testing selector, and its plans
    driver         what every durable selector does besides selecting
    recovery       newest good snapshot, replay, verify
    keeper         the thread behind a selector: lease, snapshots, compaction
    capture        a consistent copy of a selector that goes on working meanwhile
    journal        what was acknowledged, entry by entry
    snapshots      columns in chunks, and a row that says that they are complete
    payloads       changes as bytes: versioned, compact, without pickle
    testing_changes    what can happen to a testing job, as values
    records        what belongs to a job besides its clients: test plans, client information
    acknowledged   beside a SQLite file: how far it must reach
    lease          who drives a job
    processes      whether a process that left its name still lives
    schema         the tables, their versions, the jobs in them
    settings       how a store is kept
    sqlite         SQLite
    postgres       PostgreSQL
    database       what the two databases have in common; addresses
    checksums      what makes a flipped bit show

And for people:

    inspection     what is in a store, and whether it is sound
    repair         cut a damaged tail, and say what was lost
    salvage        a damaged file, a lost row: what jobs stand on
    transfer       export, import, backup
    migration      a newer schema, after a backup

Imports point down the first list. A store needs nothing that is not in the standard
library, except psycopg for PostgreSQL.
"""

from oort.store.durable import DurableSelector
from oort.store.opening import open_selector, open_testing_selector
from oort.store.settings import StoreConfig
from oort.store.testing import DurableTestingSelector

__all__ = [
    "DurableSelector",
    "DurableTestingSelector",
    "StoreConfig",
    "open_selector",
    "open_testing_selector",
]
