"""How many changes share a transaction."""

import asyncio
from contextlib import closing
from functools import partial
from pathlib import Path

from controller.database import open_database
from controller.sequencer import Batch, Sequencer


class _Thing:
    """Something that many of are touched."""

    def before_commit(self, batch: Batch) -> None:
        """Write nothing."""

    def after_commit(self) -> None:
        """Publish nothing."""

    async def reload(self) -> None:
        """Never asked to."""


async def _batches(sequencer: Sequencer, touched: list[int]) -> list[int]:
    """Submit changes that touch so many things each; tell how many share each transaction."""
    order: list[int] = []
    sizes: list[int] = []
    sequencer.on_batch = lambda size, _seconds: sizes.append(size)

    def decide(place: int, count: int, batch: Batch) -> None:
        order.append(place)
        for _ in range(count):
            batch.touch(_Thing())

    sequencer.start()
    changes = [partial(decide, at, count) for at, count in enumerate(touched)]
    await asyncio.gather(*map(sequencer.submit, changes))
    await sequencer.close()
    assert order == sorted(order)
    return sizes


def test_who_comes_after_much_was_touched_shares_the_next_transaction(tmp_path: Path) -> None:
    with closing(open_database(f"sqlite:///{tmp_path}/one.db")) as database:
        sizes = asyncio.run(_batches(Sequencer(database), [200, 50, 10, 1, 300, 2, 2]))
    assert sizes == [3, 2, 2]
