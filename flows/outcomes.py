"""The outcomes of a data set, as a person asks for them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from evenshard import outcomes
from evenshard.adapters import outcomes as files
from evenshard.core.errors import ObjectMissingError, OptionError, UsageError
from evenshard.core.outcome import HINTS, Reason
from evenshard.stores import open_store
from flows.console import printable
from flows.tables import make_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from evenshard.core.receipt import Receipt
    from evenshard.core.store import Store

MAX_HOSTS_SHOWN: Final = 20
MAX_HOST_CHARS: Final = 80


def show_counts(console: Console, destination: str) -> None:
    """Print how many rows ended how, and the hosts with most failures."""
    store, receipts = _open(console, destination)
    tally = outcomes.count_rows(store, receipts)
    table = make_table("status", "reason", "rows", "what it means")
    for (status, reason), number in sorted(tally.by_reason.items(), key=lambda item: (-item[1], item[0])):
        table.add_row(status, reason, f"{number:,}", HINTS[Reason(reason)] if reason in set(Reason) else "")
    console.print(table)
    if tally.by_host:
        console.print(_hosts(tally))
    console.print(f"evenshard: {tally.by_reason.total():,} rows")


def _hosts(tally: outcomes.Tally) -> Table:
    totals: Counter[str] = Counter()
    for (host, _), number in tally.by_host.items():
        totals[host] += number
    table = make_table("host", "failed", "reasons")
    for host, number in totals.most_common(MAX_HOSTS_SHOWN):
        reasons = Counter({reason: number for (name, reason), number in tally.by_host.items() if name == host})
        told = ", ".join(f"{number:,} {reason}" for reason, number in reasons.most_common(3))
        table.add_row(printable(host[:MAX_HOST_CHARS]), f"{number:,}", told)
    if len(totals) > MAX_HOSTS_SHOWN:
        table.add_row(f"{len(totals) - MAX_HOSTS_SHOWN:,} more", "", "")
    return table


def list_rows(console: Console, destination: str, *, failed: bool, reasons: tuple[str, ...], limit: int) -> None:
    """Print rows, one a line."""
    selection = outcomes.Selection(failed=failed, reasons=reasons)
    store, receipts = _open(console, destination)
    num_rows = 0
    for frame in outcomes.select_rows(store, receipts, selection):
        for row in frame.head(max(0, limit - num_rows)).iter_rows(named=True):
            console.print(printable(_line(row)))
        num_rows += frame.height
    more = f", the first {limit:,} of them shown; --limit shows more, --to writes all" if num_rows > limit else ""
    console.print(f"evenshard: {num_rows:,} rows{more}")


def write_rows(console: Console, destination: str, *, failed: bool, reasons: tuple[str, ...], to: str) -> None:
    """Write rows to a new Parquet file."""
    selection = outcomes.Selection(failed=failed, reasons=reasons)
    store, receipts = _open(console, destination)
    try:
        num_rows = files.write_rows(to, outcomes.select_rows(store, receipts, selection))
    except FileExistsError as error:
        raise OptionError("to", f"{to} exists already; name another file") from error
    except (OSError, ValueError) as error:  # ValueError: no file can be called that
        raise OptionError("to", f"{to!r} cannot be written: {getattr(error, 'strerror', '') or error}") from error
    console.print(f"evenshard: {num_rows:,} rows written to {printable(to)}")


def _open(console: Console, destination: str) -> tuple[Store, list[Receipt]]:
    store = open_store(destination)
    try:
        receipts, is_published = outcomes.find_parts(store)
    except ObjectMissingError as error:
        raise UsageError(f"{destination}: {error.problem}") from error
    if not is_published:
        console.print(f"evenshard: nothing is published yet; these are the {len(receipts):,} slices done so far")
    return store, receipts


def _line(row: dict[str, Any]) -> str:
    """Write an outcome: what, where it stands, and what was seen."""
    status = f" {row['http_status']}" if row["http_status"] is not None else ""
    place = f"{row['source']} {_place_in(row)}" if row["source"] is not None else "a row"
    seen = ": ".join(text for text in (row["url"], row["detail"]) if text)
    return f"{row['reason'] or row['status']}{status}  {place}  {seen}"


def _place_in(row: dict[str, Any]) -> str:
    """Say where in its file a row stands, or in its archive a document."""
    names = ((name, row[name]) for name in ("member", "document"))
    return ", ".join(f"{what} {name}" for what, name in names if name is not None) or f"row {row['row']}"
