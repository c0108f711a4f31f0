"""Plans of real tables: which files are used, which are not and why, and what folders' names add."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from evenshard import planning
from evenshard.adapters.footers import read_footers
from evenshard.clients import Clients
from evenshard.core.errors import BadSourcesError, ColumnError, OptionError
from evenshard.core.plan import Plan, Source, differences
from evenshard.core.recipe import Column, Kind, OnBadFile, Recipe
from evenshard.core.text import from_json, to_json
from evenshard.core.world import World
from evenshard.planning import Request, make_plan, plans_kept
from evenshard.publish import publish
from evenshard.slices import RunSettings, make_job
from evenshard.stores import open_store
from evenshard.worker import SliceWorker
from tests.support.sets import outcomes_of, published_bytes, read_set
from tests.support.tables import (
    plain_columns,
    write_broken_files,
    write_empty_among_full,
    write_mixed_schemas,
    write_table,
    write_tiny_row_groups,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenshard.core.manifest import Manifest

SKIP = OnBadFile.SKIP


def names_in(problems: Any) -> list[str]:  # noqa: ANN401 - of an error or of a plan
    """Give the file names of bad files."""
    return [Path(each[0] if isinstance(each, tuple) else each.path).name for each in problems]


def do_all(plan: Plan, folder: Path) -> Manifest:
    """Do all slices of a plan, and publish."""
    with Clients() as clients:
        worker, settings = SliceWorker(clients), RunSettings(destination=str(folder))
        for index in range(plan.num_slices):
            worker.run(make_job(plan, index, settings, fingerprint=plan.fingerprint), lambda _: None)
    return publish(plan, open_store(str(folder)))


def test_slices_have_one_row_or_none_when_most_files_are_empty(tmp_path: Path) -> None:
    """The public case C01: 5 files, 7 rows; over 3 nodes x 4 workers, 7 slices of one row and 5 ranks without."""
    folder = write_empty_among_full(tmp_path / "meta")
    plan = make_plan(str(folder), Request(caption_column="caption", world=World(num_nodes=3, workers_per_node=4)))
    assert (5, 7, [1] * 7) == (len(plan.sources), plan.num_rows, [each.num_rows for each in plan.slices()])
    assert 5 == sum(not plan.slices_of(rank) for rank in plan.ranks)
    assert {"url": Kind.STR, "caption": Kind.STR} == {column.name: column.kind for column in plan.recipe.columns}


def test_set_is_empty_when_its_one_file_is(tmp_path: Path) -> None:
    """The public case C01, a folder with nothing but an empty file: it ends well with 0 samples."""
    plan = make_plan(str(write_table(tmp_path / "only-empty/empty.parquet", plain_columns(0)).parent), Request())
    assert (0, 0) == (plan.num_rows, plan.num_slices)
    assert (0, ()) == (do_all(plan, tmp_path / "set").counts.stored, plan.left_out)


@pytest.mark.parametrize(("nodes", "workers"), [(3, 4), (1, 1), (1, 7), (5, 2)], ids=["3x4", "1x1", "1x7", "5x2"])
def test_each_row_comes_once_when_slices_cut_row_groups(tmp_path: Path, nodes: int, workers: int) -> None:
    """The public case C02: 1,022 rows in 281 row groups and a second file; the number that a row has is its own."""
    folder = write_tiny_row_groups(tmp_path / "meta")
    world = World(num_nodes=nodes, workers_per_node=workers)
    plan = make_plan(str(folder), Request(transform="rows", columns=("row", "url"), world=world))
    sizes = {(3, 4): {85: 10, 86: 2}, (1, 1): {1022: 1}, (1, 7): {146: 7}, (5, 2): {102: 8, 103: 2}}
    assert sizes[nodes, workers] == Counter(each.num_rows for each in plan.slices())
    do_all(plan, tmp_path / "set")
    assert list(range(1022)) == [sample["row"] for sample in read_set(tmp_path / "set")]
    first = plan.sources[0].path
    assert list(range(1022)) == [row["row"] + 1009 * (row["source"] != first) for row in outcomes_of(tmp_path / "set")]


def test_bad_files_are_all_named_when_nothing_is_skipped(tmp_path: Path) -> None:
    """Broken files, one without links, and one whose links are numbers: one error, in the order of the files."""
    folder = write_broken_files(tmp_path / "meta")
    write_table(folder / "d-no-links.parquet", {"link": ["x"]})
    write_table(folder / "y-numbers.parquet", {"url": [1]})
    with pytest.raises(BadSourcesError) as caught:
        make_plan(str(folder), Request())
    expected = ["b-bad-magic", "c-bad-footer", "d-cut", "d-no-links", "e-zero-bytes", "f-text", "g-web-page", "h-gzip"]
    assert [f"{name}.parquet" for name in [*expected, "y-numbers"]] == names_in(caught.value.problems)
    told = dict(zip(names_in(caught.value.problems), [reason for _, reason in caught.value.problems], strict=True))
    assert "no column 'url'; there are link" == told["d-no-links.parquet"]
    assert "column 'url' is int here and str elsewhere" == told["y-numbers.parquet"]


def test_bad_files_are_recorded_when_skipped(tmp_path: Path) -> None:
    """The public case C08, skipping: the plan names seven files with their reasons, and has the rows of the others."""
    folder = write_broken_files(tmp_path / "meta")
    plan = make_plan(str(folder), Request(on_bad_file=SKIP))
    assert list("bcdefgh") == [name[0] for name in names_in(plan.left_out)]
    assert ["a-good.parquet", "i-bad-page.parquet", "z-good.parquet"] == names_in(plan.sources)
    assert "the file is empty (0 bytes)" == plan.left_out[3].reason
    assert plan == from_json(Plan, to_json(plan))


def test_readable_rows_are_stored_when_a_page_is_damaged_and_skipped(tmp_path: Path) -> None:
    """The public case C08, skipping: 26 of 46 rows; 20 fail as unreadable, by file and row; twice the same bytes."""
    folder = write_broken_files(tmp_path / "meta")
    plan = make_plan(str(folder), Request(transform="rows", on_bad_file=SKIP, rows_per_slice=8))
    manifests = [do_all(plan, tmp_path / f"set{number}") for number in range(2)]
    counts = manifests[0].counts
    assert (46, 26, {"unreadable-rows": 20}) == (counts.planned, counts.stored, counts.failed)
    failed = [row for row in outcomes_of(tmp_path / "set0") if row["status"] == "failed"]
    assert [(str(folder / "i-bad-page.parquet"), row) for row in range(20, 40)] == [
        (row["source"], row["row"]) for row in failed
    ]
    assert all(row["detail"] for row in failed)
    assert plan.left_out == manifests[0].left_out
    assert published_bytes(tmp_path / "set0") == published_bytes(tmp_path / "set1")


def test_files_of_another_shape_are_left_out_when_skipped(tmp_path: Path) -> None:
    """The public case C04: 15 rows by exact names; sizes of rows 6 to 8 are not swapped; both files are recorded."""
    folder = write_mixed_schemas(tmp_path / "meta")
    columns = ("row", "url", "caption", "width", "height")
    plan = make_plan(str(folder), Request(caption_column="caption", columns=("row", "width"), on_bad_file=SKIP))
    assert ["part-5-upper-case.parquet", "part-6-no-url.parquet"] == names_in(plan.left_out)
    assert "did you mean 'URL'?" in plan.left_out[0].reason
    assert 15 == plan.num_rows
    for name in names_in(plan.left_out):
        (folder / name).unlink()
    do_all(make_plan(str(folder), Request(transform="rows", columns=columns)), tmp_path / "set")
    samples = read_set(tmp_path / "set")
    assert list(range(15)) == [sample["row"] for sample in samples]
    assert [(640, 480.0)] * 3 == [(sample["width"], sample["height"]) for sample in samples[6:9]]
    assert [""] * 6 == [sample["caption"] for sample in samples[9:]]


def test_columns_are_settled_anew_when_files_are_left_out(tmp_path: Path) -> None:
    """Types, and the columns that there are, come from the files that are used."""
    write_table(tmp_path / "a.parquet", {"url": ["x"], "n": [1]})
    write_table(tmp_path / "b.parquet", {"url": ["x"], "n": [2]})
    write_table(tmp_path / "c.parquet", {"link": ["x"], "n": [0.5], "only": [1]})
    plan = make_plan(str(tmp_path), Request(columns=("n",), on_bad_file=SKIP))
    assert Column(name="n", kind=Kind.INT, required=False) in plan.recipe.columns
    with pytest.raises(ColumnError, match="no file has column 'only'"):
        make_plan(str(tmp_path), Request(columns=("only",), on_bad_file=SKIP))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: [path.write_bytes(b"") for path in folder.iterdir()],
        lambda folder: write_table(folder / "a.parquet", {"x": [1]}),
    ],
    ids=["all broken", "none with the column"],
)
def test_nothing_is_planned_when_every_file_is_bad(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    """Skipping leaves something over, or it is an error like any other."""
    write_table(tmp_path / "a.parquet", {"url": ["x"]})
    spoil(tmp_path)
    with pytest.raises((BadSourcesError, ColumnError)):
        make_plan(str(tmp_path), Request(on_bad_file=SKIP))


def test_file_is_not_skipped_when_it_cannot_be_looked_at(tmp_path: Path) -> None:
    """What cannot be opened may hold good rows: leaving it out would lose them. Only such files are named."""
    write_table(tmp_path / "a.parquet", {"url": ["x"]})
    (tmp_path / "b.parquet").symlink_to(tmp_path / "gone")
    (tmp_path / "c.parquet").write_bytes(b"")
    with pytest.raises(BadSourcesError, match=r"^1 source file cannot be used: .*b\.parquet: cannot be opened"):
        make_plan(str(tmp_path), Request(on_bad_file=SKIP))


def test_plans_differ_when_bad_files_are_treated_otherwise(tmp_path: Path) -> None:
    """The choice, and what was left out, are part of a plan and of its fingerprint; what differs is said in short."""
    write_table(tmp_path / "a.parquet", {"url": ["x"]})
    fail, skip = (make_plan(str(tmp_path), Request(on_bad_file=each)) for each in OnBadFile)
    (tmp_path / "b.parquet").write_bytes(b"text")
    more = make_plan(str(tmp_path), Request(on_bad_file=SKIP))
    assert 3 == len({fail.fingerprint, skip.fingerprint, more.fingerprint})
    assert ["on_bad_file: fail -> skip"] == differences(fail, skip)
    assert ["files left out: 0 -> 1"] == differences(skip, more)


def write_in_folders(folder: Path) -> Path:
    """Write five rows in three files, with columns in their folders' names."""
    write_table(folder / "lang=de/year=2020/a.parquet", {"row": [0, 1]})
    write_table(folder / "lang=__HIVE_DEFAULT_PARTITION__/year=2021/a.parquet", {"row": [2]})
    write_table(folder / "lang=z%C3%BC%2F1/year=2021/a.parquet", {"row": [3, 4]})
    return folder


def test_folder_names_are_columns_when_they_hold_them(tmp_path: Path) -> None:
    """Whole numbers and text, escaped and missing values; in every row of a file, across slices of several files."""
    plan = make_plan(str(write_in_folders(tmp_path / "t")), Request(transform="rows", rows_per_slice=2))
    assert plan == from_json(Plan, to_json(plan))
    do_all(plan, tmp_path / "set")
    rows = {sample["row"]: (sample["lang"], sample["year"]) for sample in read_set(tmp_path / "set")}
    assert {0: ("de", 2020), 1: ("de", 2020), 2: ("", 2021), 3: ("zü/1", 2021), 4: ("zü/1", 2021)} == rows


def test_folder_names_are_like_other_columns_when_they_are_asked_for(tmp_path: Path) -> None:
    """As a caption, beside others, and with a suggestion where the letter case is wrong."""
    folder = write_in_folders(tmp_path / "t")
    for path in folder.rglob("*.parquet"):
        write_table(path, {"url": ["x"]})
    plan = make_plan(str(folder), Request(caption_column="lang", columns=("year",)))
    assert {"url": "str", "lang": "str", "year": "int"} == {each.name: each.kind for each in plan.recipe.columns}
    with pytest.raises(ColumnError, match=r"no file has column 'Lang'; did you mean 'lang'\?"):
        make_plan(str(folder), Request(columns=("Lang",)))
    with pytest.raises(OptionError, match="'year' holds no text"):
        make_plan(str(folder), Request(caption_column="year"))


def test_file_is_bad_when_its_folder_says_otherwise(tmp_path: Path) -> None:
    """A column that stands in both with other values is refused where it is wanted, and left alone where not."""
    write_table(tmp_path / "key=1/a.parquet", {"url": ["x"], "key": [1]})
    write_table(tmp_path / "key=2/a.parquet", {"url": ["x"], "key": [7]})
    assert 2 == len(make_plan(str(tmp_path), Request()).sources)
    with pytest.raises(BadSourcesError, match=r"^1 source file .*key=2.*column 'key' is not known to hold only '2'"):
        make_plan(str(tmp_path), Request(columns=("key",)))


def test_plan_is_small_when_ten_thousand_folders_are_columns() -> None:
    """What folders' names add to a plan is their names."""
    facts: dict[str, Any] = {"num_rows": 9, "num_bytes": 9, "version": "1"}
    days = [(f"/t/day={day}/a.parquet", (("day", str(day)),)) for day in range(10_000)]
    sources = tuple(Source(path=path, partition=partition, **facts) for path, partition in days)
    recipe = Recipe(columns=(Column(name="day", kind=Kind.INT, required=False),))
    plan = Plan(sources=sources, world=World(), recipe=recipe)
    assert len(to_json(plan)) < 2_000_000
    job = make_job(plan, 0, RunSettings(destination="/x"), fingerprint="")
    assert 228 == len(job.pieces)


def test_footers_are_read_once_when_plans_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same question is answered once in a block, unless its files change; another one anew, as all after it."""
    source = str(write_table(tmp_path / "a.parquet", {"url": ["x"], "n": pa.array([1])}))
    reads: list[int] = []

    def counted(files: Any, **given: Any) -> Any:  # noqa: ANN401 - as it is
        reads.append(len(files))
        return read_footers(files, **given)

    monkeypatch.setattr(planning, "read_footers", counted)
    with plans_kept():
        assert make_plan(source, Request()) is make_plan(source, Request())
        assert 1 == len(reads)
        os.utime(source, ns=(1, 1))
        assert "1" == make_plan(source, Request()).sources[0].version
        reads.pop()
        assert make_plan(source, Request(columns=("n",))) != make_plan(source, Request())
        assert 2 == len(reads)
    make_plan(source, Request())
    assert 3 == len(reads)
