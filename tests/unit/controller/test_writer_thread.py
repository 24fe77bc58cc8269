"""A thread that waits for work holds nothing of what it did last."""

from weakref import ref

import pytest

from controller.database.writer_thread import WriterThread
from tests.garbage import uncollected
from tests.patience import until


class Work:
    """Fails, or gives a result of its own."""

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    def __call__(self) -> "Work":
        if self._fails:
            raise ValueError
        return Work(fails=True)


@pytest.mark.anyio
@pytest.mark.parametrize("fails", [False, True])
async def test_work_that_is_done_is_let_go(fails: bool) -> None:  # noqa: FBT001 (pytest gives it by name)
    with uncollected():
        writer_thread, work = WriterThread("tests"), Work(fails=fails)
        gone = [ref(work)]
        try:
            gone.append(ref(await writer_thread.run(work)))
        except ValueError:
            assert fails
        del work
        await until(lambda: [one() for one in gone] == [None] * len(gone))
        writer_thread.close()
