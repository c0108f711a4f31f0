"""Failed rows tried again, and bad chunks made again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenshard.adapters.local_store import LocalStore
from evenshard.core.errors import OptionError
from evenshard.generations import list_generations, read_manifest
from evenshard.inspection import Depth, verify
from flows.ingest import ingest
from flows.repair import repair
from flows.retry import retry_failed
from tests.support.pictures import jpeg
from tests.support.sets import outcomes_of, published_bytes, read_set
from tests.support.tables import link_columns, write_table
from tests.support.web import Answer

if TYPE_CHECKING:
    from tests.support.web import Web


def make(web: Web, folder: Path, num_rows: int = 20) -> Path:
    """Make a set of pictures of two files; each picture's width tells its row."""
    web.answer = lambda path: Answer(body=jpeg(int(path[1:-4]) + 20, 30))
    links = [f"{web.address}/{row}.jpg" for row in range(num_rows)]
    write_table(folder / "t/a.parquet", link_columns(links[:9]))
    write_table(folder / "t/b.parquet", link_columns(links[9:], start=9))
    given: dict[str, Any] = {
        "columns": ["row"],
        "resize": "none",
        "rows_per_slice": 4,
        "engine": "threads",
        "attempts": 1,
    }
    ingest(source=str(folder / "t"), destination=str(folder / "set"), **given)
    return folder / "set"


def test_rows_join_the_set_when_their_failure_has_passed(web: Web, tmp_path: Path) -> None:
    """503 and 429 are tried again and 404 is not; what comes is added, with its lineage, and the counts add up."""
    busy, gone = {2, 3, 8, 9, 15}, {5, 11}
    web.answers = {f"/{row}.jpg": Answer(status=503 if row != 8 else 429) for row in busy}
    web.answers |= {f"/{row}.jpg": Answer(status=404) for row in gone}
    folder = make(web, tmp_path)
    web.answers = {"/15.jpg": Answer(status=503), **{f"/{row}.jpg": Answer(status=404) for row in gone}}
    web.asked.clear()
    result = retry_failed(destination=str(folder), engine="threads", attempts=1)

    assert {f"/{row}.jpg" for row in busy} == set(web.asked)
    counts = (result["generation"], result["planned"], result["stored"], result["failed"])
    assert (2, 20, 17, {"http-server-error": 1, "http-status": 2}) == counts
    first = [row for row in range(20) if row not in busy | gone]
    assert [*first, 2, 3, 8, 9] == [sample["row"] for sample in read_set(folder)]
    verify(LocalStore(folder), depth=Depth.DEEP)
    again = [(Path(row["source"]).stem, row["row"]) for row in outcomes_of(folder)[20:]]
    assert [("a", 2), ("a", 3), ("a", 8), ("b", 0), ("b", 6)] == again

    web.answers = {}
    last = retry_failed(destination=str(folder), engine="threads")
    assert (3, 18, {"http-status": 2}) == (last["generation"], last["stored"], last["failed"])
    web.asked.clear()
    assert last == retry_failed(destination=str(folder), engine="threads")
    assert 0 == web.asked.total()


def test_rows_of_a_changed_file_are_left_when_retrying(
    web: Web, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A failed row whose file has changed cannot be tried again; that is said, and the others are tried."""
    web.answers = {f"/{row}.jpg": Answer(status=503) for row in (2, 15)}
    folder = make(web, tmp_path)
    web.answers = {}
    write_table(tmp_path / "t/b.parquet", link_columns(["http://127.0.0.1:1/"]))
    result = retry_failed(destination=str(folder), engine="threads")
    assert (19, {"http-server-error": 1}) == (result["stored"], result["failed"])
    assert "b.parquet has changed or is gone; 1 rows of it cannot be tried again" in caplog.text


@pytest.mark.parametrize("damage", ["altered", "missing", "receipt", "outcomes", "manifest", "index", "plan"])
def test_set_is_the_same_bytes_when_repaired(web: Web, tmp_path: Path, damage: str) -> None:
    """Whatever was damaged is made again, only that is fetched, and every byte is as it was."""
    folder = make(web, tmp_path)
    whole = published_bytes(folder)
    chunk = sorted(folder.glob("chunk-*"))[2]
    harmed = {
        "receipt": folder / ".evenshard/receipts/g0001/s000001.json",
        "outcomes": next((folder / ".evenshard/outcomes").glob("g0001-s000003-*")),
        "manifest": folder / "manifest.json",
        "index": folder / "index.json",
        "plan": folder / ".evenshard/plans/g0001.json",
    }.get(damage, chunk)
    if damage == "missing":
        harmed.unlink()
    else:
        harmed.write_bytes(harmed.read_bytes()[:-2] + b"!\n")
    web.asked.clear()
    result = repair(destination=str(folder), engine="threads")

    assert (1, 20) == (result["generation"], result["stored"])
    assert whole == published_bytes(folder)
    assert verify(LocalStore(folder), depth=Depth.DEEP).counts.stored == 20
    assert (4 if damage in {"altered", "missing", "outcomes"} else 0) == web.asked.total()


def test_repair_is_a_new_generation_when_the_web_has_changed(web: Web, tmp_path: Path) -> None:
    """What cannot be had again as it was is what it is now, said by a new generation; the rest stays."""
    folder = make(web, tmp_path)
    sorted(folder.glob("chunk-*"))[1].unlink()
    web.answers = {"/5.jpg": Answer(status=404)}
    result = repair(destination=str(folder), engine="threads")
    assert (2, 20, 19, {"http-status": 1}) == (
        result["generation"], result["planned"], result["stored"], result["failed"]
    )  # fmt: skip
    assert [row for row in range(20) if row != 5] == [sample["row"] for sample in read_set(folder)]
    assert "repair" == read_manifest(LocalStore(folder)).made_by
    assert [1, 2] == list_generations(LocalStore(folder))
    verify(LocalStore(folder))


@pytest.mark.parametrize("flow", [retry_failed, repair], ids=["retry-failed", "repair"])
def test_folder_without_a_set_is_refused(tmp_path: Path, flow: Any) -> None:  # noqa: ANN401 - a flow
    """There is nothing to do it to."""
    with pytest.raises(OptionError, match="holds no published data set"):
        flow(destination=str(tmp_path / "none"), engine="threads")
