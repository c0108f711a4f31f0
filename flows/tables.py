"""What a person reads on the terminal: a plan before it is run, and a data set after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table

from evenshard.core.outcome import HINTS, Reason
from evenshard.core.recipe import Encode, Resize
from evenshard.core.sizes import format_bytes
from evenshard.core.source_address import shown
from flows.console import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from evenshard.core.manifest import Manifest
    from evenshard.core.plan import LeftOut, Plan
    from evenshard.core.recipe import Recipe

BITS_PER_PIXEL: Final = {Encode.JPEG: 2.5, Encode.WEBP: 2.1, Encode.PNG: 13.0}
"""What 400 photographs took at 224 px and quality 90: 15.8, 12.9 and 81.6 kB each. Only for a plan's estimate."""
MAX_RANKS_SHOWN: Final = 16
NUMBERS: Final = frozenset({"rows", "failed", "stored", "chunks", "bytes", "sources", "generation"}) | {
    "workers", "samples/s", "spread", "MB/s", "CPU us/sample", "elapsed s"
}  # fmt: skip
MAX_FILES_SHOWN: Final = 20


def show_plan(console: Console, plan: Plan) -> None:
    """Print what a plan would do."""
    table = _table()
    table.add_row("source files", f"{len(plan.sources):,}")
    if plan.left_out:
        table.add_row("files left out", f"{len(plan.left_out):,}")
    table.add_row("rows", f"{plan.num_source_rows:,}")
    table.add_row("rows planned", f"{plan.num_rows:,}")
    for piece in plan.dropped:
        table.add_row("rows dropped", f"{shown(piece.source.path)}, rows {piece.start} to {piece.stop - 1}")
    table.add_row("nodes x workers", f"{plan.world.num_nodes} x {plan.world.workers_per_node}")
    table.add_row("rows per rank", _spread([stop - start for start, stop in map(plan.shard, plan.ranks)]))
    table.add_row("slices", f"{plan.num_slices:,} of at most {plan.rows_per_slice:,} rows")
    table.add_row("fields of a sample", _fields(plan.recipe))
    table.add_row("requests", f"{plan.num_rows if plan.recipe.url_column else 0:,}, if no link is asked twice")
    table.add_row("estimated size", _estimate(plan))
    table.add_row("fingerprint", plan.fingerprint[:12])
    console.print(table)
    _tell_left_out(console, plan.left_out)


def show_set(console: Console, manifest: Manifest, *, destination: str, rows_per_second: float | None = None) -> None:
    """Print what was published.

    Args:
        console: where to.
        manifest: of the data set.
        destination: as it was given.
        rows_per_second: how fast the run was; None leaves it out.
    """
    counts, table = manifest.counts, _table()
    rows = "documents" if manifest.parts[-1].plan.recipe.is_of_members else "rows"
    table.add_row(f"{rows} planned", f"{counts.planned:,}")
    table.add_row("stored", f"{counts.stored:,}")
    for what, reasons in (("filtered", counts.filtered), ("failed", counts.failed)):
        table.add_row(what, f"{sum(reasons.values()):,}")
        for reason, number in sorted(reasons.items(), key=lambda item: -item[1]):
            table.add_row(f"  {reason}", f"{number:,}  {HINTS[Reason(reason)]}")
    if manifest.left_out:
        table.add_row("files left out", f"{len(manifest.left_out):,}")
    if manifest.num_dropped:
        table.add_row("dropped", f"{manifest.num_dropped:,}")
    table.add_row(f"{rows} per rank", _spread(list(manifest.rows_per_rank().values())))
    table.add_row("chunks", f"{len(manifest.chunks):,}")
    table.add_row("bytes", f"{manifest.num_bytes:,} ({format_bytes(manifest.num_bytes)})")
    if rows_per_second is not None:
        table.add_row(f"{rows}/s", f"{rows_per_second:.1f}")
    console.print(table)
    _tell_left_out(console, manifest.left_out)
    if not counts.stored:
        console.print("evenshard: the data set holds no sample")
    console.print(
        f"evenshard: generation {manifest.generation} in {destination} is whole: {counts.planned:,} {rows} = "
        f"{counts.stored:,} stored + {counts.num_filtered:,} filtered + {counts.num_failed:,} failed"
    )


def make_table(*names: str) -> Table:
    """Make a table with a heading; columns of numbers are those named so."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold", justify="right" if name in NUMBERS else "left")
    return table


def _tell_left_out(console: Console, files: Sequence[LeftOut]) -> None:
    """Name the files that no row was taken from, one in a line, so that its path can be copied."""
    for each in files[:MAX_FILES_SHOWN]:
        console.print(printable(f"evenshard: left out: {shown(each.path)}: {each.reason}"))
    if len(files) > MAX_FILES_SHOWN:
        console.print(f"evenshard: and {len(files) - MAX_FILES_SHOWN:,} more; plan and manifest list all")


def _table() -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _spread(rows: Sequence[int]) -> str:
    """Write the rows of each rank; of many ranks only how they differ."""
    if len(rows) <= MAX_RANKS_SHOWN:
        return " ".join(f"{number:,}" for number in rows)
    return f"{min(rows):,} to {max(rows):,}"


def _fields(recipe: Recipe) -> str:
    if recipe.schema is None:
        return "found from what the transform yields"
    return ", ".join(f"{field.name}: {field.kind}" for field in recipe.schema.fields)


def _estimate(plan: Plan) -> str:
    image = plan.recipe.image
    if plan.recipe.url_column is None:
        return f"about that of the table, {format_bytes(sum(source.num_bytes for source in plan.sources))} packed"
    if image.resize in {Resize.NONE, Resize.KEEP}:
        return "as the pictures are; unknown before they are fetched"
    sample = image.size_px**2 * BITS_PER_PIXEL[image.encode] / 8
    return f"at most about {format_bytes(int(sample * plan.num_rows))}, if every link gives a picture"
