"""Failed rows once more: those whose failure may have passed, as a plan of their own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from evenshard.appending import is_same, known_sources
from evenshard.core.errors import DestinationError, OptionError
from evenshard.core.manifest import receipt_of
from evenshard.core.outcome import MAY_PASS, Reason, Status
from evenshard.core.plan import Mode, Plan
from evenshard.core.world import Remainder
from evenshard.destination import claim, find_unfinished
from evenshard.generations import find_current
from evenshard.outcomes import Selection, select_rows
from evenshard.planning import libraries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenshard.core.manifest import Manifest, Part
    from evenshard.core.store import Store

RETRIED: Final = MAY_PASS | {Reason.NO_SUCH_HOST}
"""A name that was unknown in one run may be known in the next."""

_PLACE: Final = ("source", "row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """What is to be tried again.

    Args:
        plan: how; None if no row's failure may have passed.
        left: rows that cannot be tried again, since their file has changed or is gone, by file.
    """

    plan: Plan | None
    left: dict[str, int]


def begin_retry(store: Store) -> Retry:
    """Plan failed rows once more, and claim the destination for that.

    Raises:
        OptionError: nothing is published here.
        DestinationError: another run is unfinished here.
    """
    current = find_current(store)
    if current is None:
        raise OptionError("destination", f"{store.address} holds no published data set")
    unfinished = find_unfinished(store, after=current.generation)
    if unfinished is not None and unfinished.mode is not Mode.RETRY:
        raise DestinationError(f"{store.address} holds an unfinished run; finish it, or sweep it with --unfinished")
    retry = Retry(plan=unfinished, left={}) if unfinished is not None else plan_retry(store, current)
    if retry.plan is not None:
        claim(store, retry.plan)
    return retry


def plan_retry(store: Store, current: Manifest) -> Retry:
    """Plan the rows whose last outcome is a failure that may have passed."""
    failed = _failed_rows(store, current)
    known = known_sources(current)
    paths = failed["source"].unique(maintain_order=True).to_list()
    usable = [path for path in paths if is_same(known[path])]
    left = Counter(failed.filter(~pl.col("source").is_in(usable))["source"].to_list())
    failed = failed.filter(pl.col("source").is_in(usable))
    if not failed.height:
        return Retry(plan=None, left=dict(left))
    before = current.parts[-1].plan
    order = {path: index for index, path in enumerate(usable)}
    plan = Plan(
        sources=tuple(known[path] for path in usable),
        world=before.world,
        recipe=replace(before.recipe, libraries=libraries()),
        rows_per_slice=before.rows_per_slice,
        remainder=Remainder.SPREAD,
        generation=current.generation + 1,
        mode=Mode.RETRY,
        base=current.generation,
        superseded=dict(sorted(Counter(failed["reason"].to_list()).items())),
        ranges=tuple(_ranges(failed, order)),
    )
    return Retry(plan=plan, left=dict(left))


def _failed_rows(store: Store, current: Manifest) -> pl.DataFrame:
    """Give place and reason of rows whose last outcome is a failure that may have passed."""
    kept = pl.DataFrame(schema={"source": pl.String, "row": pl.Int64, "reason": pl.String})
    for part in current.parts:
        rows = _rows_of(store, part)
        if part.plan.mode is Mode.RETRY:
            kept = kept.join(rows, on=_PLACE, how="anti", maintain_order="left")
        kept = pl.concat([kept, rows.filter(_is_retried()).select("source", "row", "reason")])
    return kept


def _rows_of(store: Store, part: Part) -> pl.DataFrame:
    receipts = [receipt_of(part, entry) for entry in part.slices]
    frames = [frame.select("source", "row", "status", "reason") for frame in select_rows(store, receipts, Selection())]
    empty = pl.DataFrame(schema={"source": pl.String, "row": pl.Int64, "status": pl.String, "reason": pl.String})
    return pl.concat([empty, *frames])


def _is_retried() -> pl.Expr:
    """Say of outcomes whether they are tried again; those of callables name no row, and cannot be."""
    reasons = [reason.value for reason in RETRIED]
    failed = pl.col("status") == Status.FAILED.value
    return failed & pl.col("reason").is_in(reasons) & pl.col("source").is_not_null()


def _ranges(failed: pl.DataFrame, order: dict[str, int]) -> Iterator[tuple[int, int, int]]:
    """Give the rows as half-open ranges (position of the source, start, stop), ascending."""
    last: tuple[int, int, int] | None = None
    places = sorted((order[source], row) for source, row in failed.select(_PLACE).iter_rows())
    for source, row in places:
        if last is not None and last[0] == source and last[2] == row:
            last = (source, last[1], row + 1)
            continue
        if last is not None:
            yield last
        last = (source, row, row + 1)
    if last is not None:
        yield last
