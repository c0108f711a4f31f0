"""Callables of one's own, good and bad, for tests."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl


class Counting:
    """Yields which call of its instance each row came in."""

    fields: ClassVar = {"call": "int"}

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, frame: pl.DataFrame) -> Iterator[dict[str, int]]:
        """Count the call."""
        self.calls += 1
        yield from ({"call": self.calls} for _ in range(frame.height))


class Modules:
    """Yields the names of the packages that its process has loaded."""

    fields: ClassVar = {"packages": "str"}

    def __call__(self, _frame: pl.DataFrame) -> Iterator[dict[str, str]]:
        """Look at what is loaded."""
        yield {"packages": " ".join(sorted({name.split(".")[0] for name in sys.modules}))}


class Forking:
    """Keeps a pool of forked processes, which hold open whatever was open when they began."""

    fields: ClassVar = {"row": "int"}

    def __init__(self) -> None:
        self.pool = ProcessPoolExecutor(1, mp_context=get_context("fork"))

    def __call__(self, frame: pl.DataFrame) -> Iterator[dict[str, int]]:
        """Have each row looked at elsewhere."""
        yield from ({"row": self.pool.submit(abs, row).result()} for row in frame["row"])


class BreaksAt:
    """Raises at the slices that hold certain rows."""

    fields: ClassVar = {"row": "int"}
    rows: ClassVar = {2, 8}

    def __call__(self, frame: pl.DataFrame) -> Iterator[dict[str, int]]:
        """Yield each row, or raise."""
        for row in frame["row"]:
            if row in self.rows:
                raise LookupError(f"no luck with {row}")
            yield {"row": row}


class TooMany:
    """Yields one sample more than there are rows."""

    fields: ClassVar = {"row": "int"}

    def __call__(self, frame: pl.DataFrame) -> Iterator[dict[str, int]]:
        """Yield without measure."""
        yield from ({"row": row} for row in range(frame.height + 1))


class Exits:
    """Ends the program, or tries to."""

    fields: ClassVar = {"row": "int"}

    def __call__(self, _frame: pl.DataFrame) -> Iterator[dict[str, int]]:
        """Leave as if all were well."""
        yield {"row": 0}
        sys.exit(0)


class Unmakeable:
    """Cannot be made."""

    fields: ClassVar = {"row": "int"}

    def __init__(self) -> None:
        raise LookupError("no luck at all")

    def __call__(self, _frame: pl.DataFrame) -> Iterator[dict[str, int]]:
        """Never come here."""
        yield {}


class WaitsFor:
    """Waits for an event after its first row."""

    fields: ClassVar = {"row": "int"}
    event = threading.Event()

    def __call__(self, frame: pl.DataFrame) -> Iterator[dict[str, int]]:
        """Yield each row."""
        for row in frame["row"]:
            yield {"row": row}
            self.event.wait(30)
