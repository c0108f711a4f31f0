"""A slice done twice, publishing in memory, and what verification finds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from evenshard.adapters.local_store import LocalStore
from evenshard.clients import Clients
from evenshard.core.errors import ObjectMissingError, UnfinishedError, VerificationError
from evenshard.core.layout import RECEIPTS
from evenshard.destination import claim
from evenshard.inspection import verify
from evenshard.planning import Request, make_plan
from evenshard.publish import publish
from evenshard.slices import RunSettings, make_job
from evenshard.worker import SliceWorker
from tests.support.tables import plain_columns, write_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from evenshard.core.plan import Plan
    from evenshard.core.receipt import Receipt


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Plan ten rows in four slices."""
    source = write_table(tmp_path / "a.parquet", plain_columns(10))
    return make_plan(str(source), Request(transform="rows", rows_per_slice=3))


def do(plan: Plan, index: int, folder: Path) -> Receipt:
    """Do one slice into a folder."""
    job = make_job(plan, index, RunSettings(destination=str(folder)), fingerprint=plan.fingerprint)
    with Clients() as clients:
        return SliceWorker(clients).run(job, lambda _: None)


def published(plan: Plan, folder: Path) -> LocalStore:
    """Claim the folder, do all slices, and publish."""
    claim(LocalStore(folder), plan)
    for index in range(plan.num_slices):
        do(plan, index, folder)
    store = LocalStore(folder)
    publish(plan, store)
    return store


def test_receipt_is_the_first_ones_when_a_slice_is_done_twice(plan: Plan, tmp_path: Path) -> None:
    """A finished slice is found, not done again."""
    first = do(plan, 1, tmp_path / "set")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "set").rglob("*")}
    assert first == do(plan, 1, tmp_path / "set")
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "set").rglob("*")}


@pytest.mark.parametrize(
    "damage",
    [
        lambda _, chunk: chunk.unlink(),
        lambda _, chunk: chunk.write_bytes(b""),
        lambda receipt, _: receipt.write_text(receipt.read_text()[:-20]),
        lambda receipt, _: receipt.write_text(""),
    ],
    ids=["chunk gone", "chunk empty", "receipt cut", "receipt empty"],
)
def test_slice_is_done_again_when_its_receipt_does_not_hold(
    plan: Plan, tmp_path: Path, damage: Callable[[Path, Path], object]
) -> None:
    """A receipt whose files are not there, or that is damaged, signs for nothing."""
    first = do(plan, 1, tmp_path / "set")
    damage(next((tmp_path / "set" / RECEIPTS).rglob("*.json")), tmp_path / "set" / first.chunks[0].name)
    again = do(plan, 1, tmp_path / "set")
    assert first.chunks == again.chunks
    assert LocalStore(tmp_path / "set").size(first.chunks[0].name) == first.chunks[0].num_bytes


def test_unfinished_slices_are_named_when_publishing(plan: Plan, tmp_path: Path) -> None:
    """Slices without a receipt are named, with what was last heard of them."""
    do(plan, 1, tmp_path / "set")
    told = r"3 slices are not finished: slice 0: has no receipt; slice 2: it broke"
    with pytest.raises(UnfinishedError, match=told):
        publish(plan, LocalStore(tmp_path / "set"), last_errors={2: "it broke"})
    assert not (tmp_path / "set/manifest.json").exists()


def edit(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    """Change a JSON file."""
    text = json.loads(path.read_text())
    change(text)
    path.write_text(json.dumps(text))


COUNTS = {"planned": 3, "stored": 2, "filtered": {}, "failed": {}}
LIES: dict[str, tuple[Callable[[dict[str, object]], object], str]] = {
    "sum": (lambda text: text.update(counts=COUNTS), "2 stored \\+ 0 filtered \\+ 0 failed are not the 3"),
    "plan": (lambda text: text.update(fingerprint="0" * 64), "a receipt of another plan: 000000000000"),
    "rows": (lambda text: text.update(start=0), "a receipt of other rows"),
    "planned": (lambda text: text.update(counts={**COUNTS, "planned": 2}), "has 3 rows, its receipt counts 2"),
    "chunks": (lambda text: text.update(chunks=[]), "its chunks hold 0 samples, 3 rows were stored"),
}


@pytest.mark.parametrize("lie", LIES)
def test_nothing_is_published_when_a_receipt_does_not_add_up(plan: Plan, tmp_path: Path, lie: str) -> None:
    """Whatever a receipt says that the plan, its rows or its chunks do not: it is named."""
    for index in range(plan.num_slices):
        do(plan, index, tmp_path / "set")
    change, told = LIES[lie]
    edit(tmp_path / "set" / RECEIPTS / "g0001/s000003.json", change)
    with pytest.raises(VerificationError, match=rf"slice 3.*{told}"):
        publish(plan, LocalStore(tmp_path / "set"))
    assert not (tmp_path / "set/manifest.json").exists()


@pytest.mark.parametrize(
    "name", ["index.json", "manifest.json", ".evenshard/generations/g0001.json", RECEIPTS + "g0001/s000001.json"]
)
def test_damage_is_found_when_a_text_is_altered_by_one_bit(plan: Plan, tmp_path: Path, name: str) -> None:
    """Every bit of index, manifests and receipts counts; here one of each byte."""
    store = published(plan, tmp_path / "set")
    path = tmp_path / "set" / name
    whole = path.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 60)):
        changed = bytearray(whole)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        with pytest.raises(VerificationError):
            verify(store)
    path.write_bytes(whole)
    assert verify(store).counts.stored == 10


def test_set_is_not_there_when_nothing_is_published(plan: Plan, tmp_path: Path) -> None:
    """An unfinished folder is no data set."""
    do(plan, 0, tmp_path / "set")
    with pytest.raises(ObjectMissingError, match=r"manifest\.json"):
        verify(LocalStore(tmp_path / "set"))
