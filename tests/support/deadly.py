"""Transforms that end their own process, as an out-of-memory kill does."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

MARKS = "EVENSHARD_TEST_MARKS"
"""Environment variable: the folder where each death leaves a mark."""
DEADLY_ROW = 4


class DiesOnce:
    """Dies at the first attempt at the slice that holds row 4."""

    fields: ClassVar = {"row": "int"}
    deaths = 1

    def __call__(self, frame: pl.DataFrame) -> Iterator[dict[str, int]]:
        """Yield each row, or die in the middle of the slice."""
        for row in frame["row"]:
            if row == DEADLY_ROW and _leave_mark() <= self.deaths:
                os.kill(os.getpid(), signal.SIGKILL)
            yield {"row": row}


class DiesAlways(DiesOnce):
    """Dies at each attempt."""

    deaths = 1_000


def _leave_mark() -> int:
    folder = Path(os.environ[MARKS])
    count = len(list(folder.iterdir())) + 1
    (folder / f"{count}-{os.getpid()}").touch()
    return count


class Waits:
    """Leaves a mark and waits for its end at the first attempt at the slice that holds row 4."""

    fields: ClassVar = {"row": "int"}

    def __call__(self, frame: pl.DataFrame) -> Iterator[dict[str, int]]:
        """Yield each row, or wait in the middle of the slice."""
        for row in frame["row"]:
            if row == DEADLY_ROW and _leave_mark() == 1:
                threading.Event().wait(120)
            yield {"row": row}
