"""The outcomes of a data set: counted, or row by row. Of a finished set, and of one that is still being made."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import polars as pl

from evenshard.adapters.outcomes import read_outcomes
from evenshard.core.errors import ObjectMissingError, OptionError, VerificationError
from evenshard.core.layout import plan_name
from evenshard.core.manifest import receipts_of
from evenshard.core.outcome import Reason, Status
from evenshard.generations import read_manifest
from evenshard.verification import read_receipts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenshard.core.receipt import Receipt
    from evenshard.core.store import Store

HOST: Final = r"^\s*[hH][tT][tT][pP][sS]?://(?:[^/?#]*@)?(\[[^\]/]*\]|[^/:?#]+)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rows are wanted; by default all of them.

    Args:
        failed: only failed ones.
        reasons: only those with one of these reasons, if any is named.
    """

    failed: bool = False
    reasons: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the names."""
        for name in self.reasons:
            if name not in set(Reason):
                raise OptionError("reason", f"{name!r} is not one of {', '.join(Reason)}")

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Keep the wanted rows."""
        wanted = pl.lit(value=True)
        if self.failed:
            wanted &= pl.col("status") == Status.FAILED.value
        if self.reasons:
            wanted &= pl.col("reason").is_in(self.reasons)
        return rows.filter(wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Rows of a data set by what became of them.

    Args:
        by_reason: number of rows by (status, reason); the reason of stored ones is empty.
        by_host: number of failed rows by (host, reason), as the links spell the host.
    """

    by_reason: Counter[tuple[str, str]] = field(default_factory=Counter)
    by_host: Counter[tuple[str, str]] = field(default_factory=Counter)


def find_parts(store: Store) -> tuple[list[Receipt], bool]:
    """Find the slices whose outcomes are known.

    Returns:
        Their receipts in order, and whether the set is published; if not, they are of the run so far.

    Raises:
        ObjectMissingError: nothing was begun here.
    """
    try:
        manifest = read_manifest(store)
    except ObjectMissingError as error:
        if store.size(plan_name(1)) is None:
            raise ObjectMissingError(error.name, f"{store.address} holds neither a data set nor a run") from None
        found = read_receipts(store, generation=1)
        return [found[index] for index in sorted(found)], False
    return receipts_of(manifest), True


def select_rows(store: Store, receipts: list[Receipt], selection: Selection) -> Iterator[pl.DataFrame]:
    """Yield the wanted rows, slice by slice, in row order.

    Raises:
        VerificationError: an outcomes file is missing or altered.
    """
    for receipt in receipts:
        yield selection.of(_read(store, receipt))


def count_rows(store: Store, receipts: list[Receipt]) -> Tally:
    """Count all rows by reason, and failed ones by host."""
    tally = Tally()
    for receipt in receipts:
        rows = _read(store, receipt)
        counts = rows.group_by("status", "reason").len()
        tally.by_reason.update({(status, reason or ""): number for status, reason, number in counts.iter_rows()})
        failed = rows.filter(pl.col("status") == Status.FAILED.value)
        hosts = failed.with_columns(host=pl.col("url").str.extract(HOST).str.to_lowercase()).drop_nulls("host")
        counts = hosts.group_by("host", "reason").len()
        tally.by_host.update({(host, reason): number for host, reason, number in counts.iter_rows()})
    return tally


def _read(store: Store, receipt: Receipt) -> pl.DataFrame:
    part = receipt.outcomes
    try:
        data = store.read(part.name)
    except ObjectMissingError as error:
        raise VerificationError([f"slice {receipt.slice_index}: {part.name} is missing"]) from error
    if sha256(data).hexdigest() != part.sha256:
        raise VerificationError([f"slice {receipt.slice_index}: {part.name} is altered"])
    try:
        return read_outcomes(data)
    except pl.exceptions.PolarsError as error:
        raise VerificationError([f"slice {receipt.slice_index}: {part.name} cannot be read: {error}"]) from error
