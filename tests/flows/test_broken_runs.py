"""Runs that break in the middle: each slice keeps its own fate, and the next run goes on from what is sound."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from evenshard.adapters.local_store import LocalStore
from evenshard.clients import Clients
from evenshard.core.errors import (
    DestinationError,
    OptionError,
    SliceError,
    StoreError,
    UnfinishedError,
    VerificationError,
)
from evenshard.core.layout import INDEX, MANIFEST, RECEIPTS, generation_name
from evenshard.destination import claim
from evenshard.inspection import verify
from evenshard.planning import Request, make_plan
from evenshard.slices import RunSettings, make_job
from evenshard.worker import SliceWorker
from flows import ingest as ingest_module
from flows.ingest import ingest
from tests.support import deadly
from tests.support.sets import published_bytes, read_set
from tests.support.tables import plain_columns, write_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from evenshard.core.plan import Plan


def run(source: Path, destination: Path, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - the flow's own
    """Store the rows of a table as they are, two to a slice."""
    given = {"transform": "rows", "engine": "threads", "rows_per_slice": 2, **options}
    result: dict[str, Any] = ingest(source=str(source), destination=str(destination), **given)
    return result


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Ten rows."""
    return write_table(tmp_path / "t.parquet", plain_columns(10))


@pytest.mark.parametrize("max_lots", [1, 300], ids=["one lot", "a lot for each slice"])
def test_each_broken_slice_is_named_when_others_of_its_lot_go_on(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_lots: int
) -> None:
    """Two of five slices break: both are named with their own reason, the three others are finished."""
    monkeypatch.setattr(ingest_module, "MAX_LOTS", max_lots)
    with pytest.raises(UnfinishedError) as caught:
        run(table, tmp_path / "set", transform="tests.support.callables:BreaksAt")
    name = "tests.support.callables:BreaksAt: LookupError:"
    expected = ((1, f"{name} no luck with 2"), (4, f"{name} no luck with 8"))
    assert expected == caught.value.problems
    assert ["s000000", "s000002", "s000003"] == sorted(
        path.stem for path in (tmp_path / "set" / RECEIPTS / "g0001").iterdir()
    )


def test_slice_is_done_again_when_its_worker_dies_in_the_middle_of_a_lot(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One lot of five slices; the worker is killed at the third: only that one is done twice."""
    monkeypatch.setattr(ingest_module, "MAX_LOTS", 1)
    (tmp_path / "marks").mkdir()
    monkeypatch.setenv(deadly.MARKS, str(tmp_path / "marks"))
    run(table, tmp_path / "set", transform="tests.support.deadly:DiesOnce", engine="processes")
    assert list(range(10)) == [sample["row"] for sample in read_set(tmp_path / "set")]
    assert len(list((tmp_path / "marks").iterdir())) == 2


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("TooMany", "slice 0: .*TooMany: ValueError: more samples than the slice's 2 rows"),
        ("Exits", "slice 0: .*Exits: SystemExit: 0"),
        ("Unmakeable", "slice 0: .*Unmakeable: LookupError: no luck at all"),
    ],
)
def test_run_fails_by_name_when_a_callable_breaks_its_contract(
    table: Path, tmp_path: Path, name: str, told: str
) -> None:
    """A callable that yields too much, or cannot be made, fails its slices by name."""
    with pytest.raises(UnfinishedError, match=told):
        run(table, tmp_path / "set", transform=f"tests.support.callables:{name}")


class StopsAtPut(LocalStore):
    """A store whose process is killed just before it writes one of its objects."""

    stop_at = ""

    def _write(self, name: str, parts: Sequence[bytes], **options: Any) -> None:  # noqa: ANN401 - as there
        if name == self.stop_at:
            raise StoreError(name, "killed here")
        super()._write(name, parts, **options)


@pytest.mark.parametrize("name", [generation_name(1), MANIFEST, INDEX])
def test_run_is_published_when_one_was_stopped_at_each_write(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Stopped before each of the last three writes, the same command publishes; the bytes are an undisturbed run's."""
    run(table, tmp_path / "undisturbed")
    with monkeypatch.context() as patch:
        patch.setattr(StopsAtPut, "stop_at", name)
        patch.setattr("tasks.publish.open_store", StopsAtPut)
        with pytest.raises(StoreError, match="killed here"):
            run(table, tmp_path / "set")
    assert not (tmp_path / "set" / INDEX).exists()
    run(table, tmp_path / "set")
    assert published_bytes(tmp_path / "undisturbed") == published_bytes(tmp_path / "set")
    assert verify(LocalStore(tmp_path / "set")).counts.stored == 10


def test_chunk_is_made_again_when_it_was_altered_before_publishing(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk altered without a change of length is found, its slice withdrawn, and the next run does it again."""
    original = ingest_module.run_slices

    def run_and_alter(*args: Any, **kwargs: Any) -> dict[int, str]:  # noqa: ANN401
        errors = original(*args, **kwargs)
        chunk = sorted((tmp_path / "set").glob("chunk-*"))[2]
        chunk.write_bytes(chunk.read_bytes()[:-1] + b"!")
        return errors

    with monkeypatch.context() as patch:
        patch.setattr(ingest_module, "run_slices", run_and_alter)
        with pytest.raises(VerificationError, match=r"slice 2: chunk .* is altered.*run again"):
            run(table, tmp_path / "set")
    run(table, tmp_path / "set")
    assert list(range(10)) == [sample["row"] for sample in read_set(tmp_path / "set")]


def plan_of(table: Path, rows_per_slice: int) -> Plan:
    """Plan the table with slices of so many rows."""
    return make_plan(str(table), Request(transform="rows", rows_per_slice=rows_per_slice))


def test_one_plan_wins_when_two_claim_a_destination(table: Path, tmp_path: Path) -> None:
    """The second is refused, however late it looked; its slices are not signed for over the first one's."""
    store, first, second = LocalStore(tmp_path / "set"), plan_of(table, 2), plan_of(table, 3)
    claim(store, first)
    with pytest.raises(DestinationError, match="they differ in rows_per_slice: 2 -> 3"):
        claim(store, second)
    settings = RunSettings(destination=str(tmp_path / "set"))
    with Clients() as clients:
        worker = SliceWorker(clients)
        signed = worker.run(make_job(first, 0, settings, fingerprint=first.fingerprint), lambda _: None)
        with pytest.raises(SliceError, match=r"slice 0: .* is at work on another plan by now"):
            worker.run(make_job(second, 0, settings, fingerprint=second.fingerprint), lambda _: None)
        assert signed == worker.run(make_job(first, 0, settings, fingerprint=first.fingerprint), lambda _: None)
        late = make_job(second, 3, settings, fingerprint=second.fingerprint)  # of a plan that was given up meanwhile
        worker.run(late, lambda _: None)
        mine = make_job(first, 3, settings, fingerprint=first.fingerprint)
        assert first.fingerprint == worker.run(mine, lambda _: None).fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"counts": {"planned": 15, "stored": 10, "filtered": {}, "failed": {"too-slow": 5}}},
        {"parts": []},
        {"generation": 2},
        {"made_by": "append"},
        {"format_version": 3},
    ],
    ids=lambda change: next(iter(change)),
)
def test_manifest_is_found_out_when_it_was_edited_with_its_copy(
    table: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    """A manifest must follow from its own plan and receipts, even if its copy says the same."""
    run(table, tmp_path / "set")
    for name in (MANIFEST, generation_name(1)):
        path = tmp_path / "set" / name
        text = json.dumps({**json.loads(path.read_text()), **change}, sort_keys=True, ensure_ascii=False, indent=1)
        path.write_text(text + "\n")
    with pytest.raises(VerificationError):
        verify(LocalStore(tmp_path / "set"))


@pytest.mark.parametrize("address", ["gs://bucket/prefix", "t.parquet"], ids=["no such store", "a file"])
def test_destination_is_refused_when_it_is_no_folder(table: Path, tmp_path: Path, address: str) -> None:
    """An address of another kind is not taken for a folder's name; a file is not written over."""
    destination = address if "://" in address else str(tmp_path / address)
    with pytest.raises(OptionError, match="destination: "):
        ingest(source=str(table), destination=destination, engine="threads")
    assert [table] == list(tmp_path.iterdir())


def test_file_is_refused_when_it_is_named_twice_by_other_ways(table: Path, tmp_path: Path) -> None:
    """A link beside its file would have each row counted twice."""
    (tmp_path / "link.parquet").symlink_to(table)
    with pytest.raises(OptionError, match="is the same file as"):
        ingest(source=str(tmp_path), destination=str(tmp_path / "set"), engine="threads")
