"""Rows that cannot be used as they stand fail by themselves, whatever is done with the rows of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from evenshard.adapters.fetch import FetchOptions
from evenshard.clients import Clients
from evenshard.core.address import OpenHosts
from evenshard.core.recipe import OnBadFile
from evenshard.planning import Request, make_plan
from evenshard.publish import publish
from evenshard.slices import RunSettings, make_job
from evenshard.stores import open_store
from evenshard.worker import SliceWorker
from tests.support.pictures import jpeg
from tests.support.sets import outcomes_of, read_set
from tests.support.tables import write_damaged_page, write_table
from tests.support.web import Answer, Web

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import polars as pl

    from evenshard.core.outcome import Counts


@pytest.fixture
def web() -> Iterator[Web]:
    """Serve a picture at any path."""
    body = jpeg()
    with Web(lambda _: Answer(body=body)) as server:
        yield server


def numbers(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield each row's number and caption."""
    yield from ({"row": row["row"], "caption": row["caption"]} for row in frame.iter_rows(named=True))


def ingest(source: Path, folder: Path, **given: Any) -> Counts:  # noqa: ANN401 - of a request
    """Plan, do all slices, and publish."""
    plan = make_plan(str(source), Request(**given))
    with Clients() as clients:
        worker, settings = (
            SliceWorker(clients),
            RunSettings(destination=str(folder), fetch=FetchOptions(open_hosts=OpenHosts.parse(["127.0.0.1"]))),
        )
        for index in range(plan.num_slices):
            worker.run(make_job(plan, index, settings, fingerprint=plan.fingerprint), lambda _: None)
    counts = publish(plan, open_store(str(folder))).counts
    assert counts.adds_up
    return counts


@pytest.fixture
def table(web: Web, tmp_path: Path) -> Path:
    """Write six rows: bad are the link of row 1, the caption of row 2, another text of row 3, a number of row 4."""
    links = [f"{web.address}/{row}".encode() for row in range(6)]
    columns = {
        "row": pa.array(range(6), pa.int64()),
        "url": pa.array([links[0], links[1] + b"\xff", *links[2:]]).view(pa.string()),
        "caption": pa.array([b"a", b"b", b"\xff", b"d", b"e", None]).view(pa.string()),
        "other": pa.array([b"", b"", b"", b"x\xff", None, b"z"]).view(pa.string()),
        "number": pa.array([0, 0, 0, 0, 2**63, 0], pa.uint64()),
    }
    return write_table(tmp_path / "t.parquet", columns)


REASONS = [None, "bad-text", "bad-text", "bad-text", "value-out-of-range", None]


@pytest.mark.parametrize("rows_per_slice", [100, 4, 1])
def test_row_fails_unasked_when_a_wanted_value_is_bad(
    web: Web, table: Path, tmp_path: Path, rows_per_slice: int
) -> None:
    """A link, a caption or another text that is no UTF-8, a number too large: each its own row, and its column told."""
    given: dict[str, Any] = {"caption_column": "caption", "columns": ("row", "other", "number")}
    counts = ingest(table, tmp_path / "set", rows_per_slice=rows_per_slice, **given)
    rows = outcomes_of(tmp_path / "set")
    assert REASONS == [row["reason"] for row in rows]
    assert ["'url'", "'caption'", "'other'", "'number'"] == [row["detail"].split()[1].rstrip(":") for row in rows[1:5]]
    assert {"/0", "/5"} == set(web.asked)
    assert [None, f"{web.address}/2"] == [row["url"] for row in rows[1:3]]
    assert [(0, "a"), (5, "")] == [(sample["row"], sample["caption"]) for sample in read_set(tmp_path / "set")]
    assert {"bad-text": 3, "value-out-of-range": 1} == counts.failed


def test_row_is_stored_when_only_unwanted_values_are_bad(web: Web, table: Path, tmp_path: Path) -> None:
    """What is not read fails no row."""
    counts = ingest(table, tmp_path / "set", caption_column="caption", columns=("row",))
    assert (4, {"bad-text": 2}) == (counts.stored, counts.failed)
    assert 4 == len(web.asked)


def test_row_fails_when_the_table_is_stored_as_it_is(table: Path, tmp_path: Path) -> None:
    """`rows`: the same four rows fail, by file and row."""
    ingest(table, tmp_path / "set", transform="rows")
    rows = outcomes_of(tmp_path / "set")
    assert [(str(table), number, reason) for number, reason in enumerate(REASONS)] == [
        (row["source"], row["row"], row["reason"]) for row in rows
    ]
    assert [0, 5] == [sample["row"] for sample in read_set(tmp_path / "set")]


def test_row_is_kept_from_a_callable_when_a_value_of_it_is_bad(table: Path, tmp_path: Path) -> None:
    """A callable gets the other rows only; these fail by name, and it has not left them out."""
    counts = ingest(table, tmp_path / "set", transform=f"{__name__}:numbers", given=numbers)
    assert (2, {}, {"bad-text": 3, "value-out-of-range": 1}) == (counts.stored, counts.filtered, counts.failed)
    assert [0, 5] == [sample["row"] for sample in read_set(tmp_path / "set")]
    assert [1, 2, 3, 4] == [row["row"] for row in outcomes_of(tmp_path / "set") if row["status"] == "failed"]


def test_callable_is_not_called_when_no_row_can_be_read(tmp_path: Path) -> None:
    """A slice whose rows are all damaged has no row to give."""
    source = write_damaged_page(tmp_path / "a.parquet")
    request = {
        "on_bad_file": OnBadFile.SKIP,
        "rows_per_slice": 20,
        "transform": f"{__name__}:numbers",
        "given": numbers,
    }
    counts = ingest(source, tmp_path / "set", **request)
    assert (20, {}, {"unreadable-rows": 20}) == (counts.stored, counts.filtered, counts.failed)
