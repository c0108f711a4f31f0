"""What a worker of somebody's cluster does with an errand; and what it refuses to do."""

from __future__ import annotations

import pickle
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from evenshard import remote
from evenshard.adapters.local_store import LocalStore
from evenshard.core.errors import OptionError, RunStoppedError, SliceError, may_pass
from evenshard.destination import claim
from evenshard.planning import Request, make_plan
from evenshard.slices import RunSettings, SliceJob, make_job
from tests.support.callables import WaitsFor
from tests.support.tables import plain_columns, write_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def job(tmp_path: Path) -> Iterator[SliceJob]:
    """Give a slice of ten rows whose plan has claimed its destination; what the worker keeps is given up."""
    yield job_of(tmp_path)
    remote.leave("run")


def job_of(tmp_path: Path, **request: Any) -> SliceJob:  # noqa: ANN401 - the request's own
    """Plan ten rows, and claim the destination for them."""
    source = write_table(tmp_path / "t.parquet", plain_columns(10))
    plan = make_plan(str(source), Request(**{"transform": "rows", **request}))
    claim(LocalStore(tmp_path / "set"), plan)
    return make_job(plan, 0, RunSettings(destination=str(tmp_path / "set")), fingerprint=plan.fingerprint)


def done(errand: bytes, **wanted: Callable[[], bool]) -> Any:  # noqa: ANN401 - a receipt, or what was raised
    """Do an errand, and unpack what comes back."""
    reports: list[bytes] = []
    kind, message = pickle.loads(remote.do_slice(errand, reports.append, **wanted))  # noqa: S301 - made here
    if kind == "error":
        raise message
    return message, [pickle.loads(report) for report in reports]  # noqa: S301 - the same


def test_receipt_and_progress_come_back_when_a_slice_is_done(job: SliceJob) -> None:
    """Both are bytes on the way, so that a cluster's serialiser has nothing to read."""
    receipt, reports = done(remote.pack(job, run="run"))
    assert (0, 10) == (receipt.slice_index, receipt.counts.stored)
    assert reports[-1].ended["stored"] == 10


@pytest.mark.parametrize("name", ["evenshard", "pillow", "polars", "pyarrow", "python"])
def test_worker_refuses_when_its_versions_are_others(job: SliceJob, name: str) -> None:
    """The error names both versions, and no attempt at it is worth another; nothing is written."""
    errand = pickle.loads(remote.pack(job, run="run"))  # noqa: S301 - made here
    theirs = tuple(f"{name} 0.0" if each.split()[0] == name else each for each in errand.versions)
    (ours,) = [each for each in remote.versions() if each.split()[0] == name]
    with pytest.raises(OptionError, match=f"other versions than the run: {name} 0.0, here {ours}; install") as caught:
        done(pickle.dumps(replace(errand, versions=theirs)))
    assert not may_pass(caught.value)
    assert not list(LocalStore(job.settings.destination).names("chunk-"))


def test_worker_refuses_when_it_cannot_read_the_job_of_another_version(job: SliceJob) -> None:
    """Versions are looked at before the job is read, which another version may not be able to."""
    errand = pickle.loads(remote.pack(job, run="run"))  # noqa: S301 - made here
    with pytest.raises(OptionError, match=r"evenshard 9\.9, here evenshard"):
        done(pickle.dumps(replace(errand, versions=("evenshard 9.9", *errand.versions[1:]), job=b"unreadable")))


def test_worker_refuses_when_it_sees_another_folder_at_the_destination(job: SliceJob, tmp_path: Path) -> None:
    """On a machine without the shared storage the path is another folder, or none: nothing is written there."""
    elsewhere = replace(job, settings=replace(job.settings, destination=str(tmp_path / "other")))
    with pytest.raises(SliceError, match=r"slice 0: worker .* does not see .*other as the run does: its plan"):
        done(remote.pack(elsewhere, run="run"))
    with pytest.raises(SliceError, match="its plan is not there"):
        done(remote.pack(replace(job, fingerprint="another"), run="run"))
    assert not (tmp_path / "other").exists()


def test_slice_ends_when_nobody_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was killed takes its slices with it, though no worker of a cluster can be."""
    held = threading.Event()

    def unwanted() -> bool:
        threading.Timer(0.2, held.set).start()
        return False

    job = job_of(tmp_path, transform="tests.support.callables:WaitsFor")
    monkeypatch.setattr(WaitsFor, "event", held)
    with pytest.raises(RunStoppedError):
        done(remote.pack(job, run="run"), wanted=unwanted)


def test_nothing_is_kept_for_another_run(job: SliceJob, tmp_path: Path) -> None:
    """A run's callable, with its state, is not the next run's, though both have one name and one worker."""
    calls = []
    for number in range(2):
        other = job_of(tmp_path / str(number), transform="tests.support.callables:Counting")
        receipt, _ = done(remote.pack(other, run=f"run {number}"))
        calls.append(LocalStore(other.settings.destination).read(receipt.chunks[0].name))
    assert calls[0] == calls[1]
    remote.leave("run 1")
    assert job.slice.index == 0
