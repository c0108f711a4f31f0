"""Engines that cannot be had are refused in one line that says what to do, before anything is written."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from evenshard.adapters.cluster_process import ClusterSettings
from evenshard.core.errors import OptionError
from flows.config import RunOptions
from flows.ingest import ingest
from flows.progress import LISTENER, Snapshot
from flows.runners import _start_cluster
from tests.support.processes import command_of
from tests.support.tables import plain_columns, write_table

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = "127.0.0.1:9"
"""An address at which no machine has a cluster, and hardly one anything."""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"engine": "threads", "engine_address": NOBODY}, "engine_address: threads run on this machine and have no ad"),
        ({"engine": "processes", "engine_address": "auto"}, "engine_address: processes run on this machine"),
        ({"engine": "dask", "engine_address": f"tcp://{NOBODY}"}, f"engine_address: nobody listens at tcp://{NOBODY}"),
        ({"engine": "dask", "engine_address": "tcp://127.0.0.1:none"}, "engine_address: nobody listens at tcp://"),
        ({"engine": "ray", "engine_address": NOBODY}, f"engine_address: nobody listens at {NOBODY}; is the cluster"),
        ({"engine": "ray", "engine_address": f"ray://{NOBODY}"}, f"engine_address: nobody listens at ray://{NOBODY}"),
    ],
    ids=lambda value: " ".join(value.values()) if isinstance(value, dict) else "",
)
def test_engine_is_refused_in_one_line_when_it_cannot_be_had(tmp_path: Path, given: dict[str, Any], told: str) -> None:
    """The option is named; the destination is not touched."""
    source = write_table(tmp_path / "t.parquet", plain_columns(2))
    with pytest.raises(OptionError) as caught:
        ingest(source=str(source), destination=str(tmp_path / "set"), transform="rows", **given)
    assert str(caught.value).startswith(told)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(("engine", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_error_names_the_extra_when_an_engine_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, package: str
) -> None:
    """A missing engine is an error, and no other engine takes its place."""
    monkeypatch.setitem(sys.modules, package, None)  # as Python marks what cannot be imported
    source = write_table(tmp_path / "t.parquet", plain_columns(2))
    with pytest.raises(OptionError, match=rf"engine: {engine} needs .*: pip install 'evenshard\[{engine}\]'"):
        ingest(source=str(source), destination=str(tmp_path / "set"), transform="rows", engine=engine)
    assert not (tmp_path / "set").exists()


def test_cluster_is_started_again_when_its_start_fails() -> None:
    """The process that shall hold it dies before it is ready: another one takes its place, as Ray's start may need."""
    over = threading.Event()
    killed: list[psutil.Process] = []

    def kill_the_first() -> None:
        while not killed and not over.wait(0.01):
            killed.extend(each for each in psutil.Process().children() if "evenshard.cluster" in command_of(each))
        for each in killed:
            each.kill()

    killer = threading.Thread(target=kill_the_first)
    killer.start()
    settings = ClusterSettings(engine="dask", address=None, num_workers=1, run="again")
    cluster, num_slots = _start_cluster(settings)
    over.set()
    killer.join()
    assert (1, 1) == (len(killed), num_slots)
    assert cluster.pid != killed[0].pid
    cluster.close()


@pytest.mark.parametrize(("num_processes", "per_host"), [(1, 16), (4, 4), (5, 3), (100, 1)])
def test_requests_of_one_host_are_shared_out(tmp_path: Path, num_processes: int, per_host: int) -> None:
    """All processes of an engine together ask one host no more than one would, but for one request each."""
    settings = RunOptions(destination=str(tmp_path), per_host=16).settings()
    assert per_host == settings.shared_out(num_processes).fetch.per_host


def test_memory_does_not_grow_with_the_number_of_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 slices of one row, in 300 lots: each costs the flow's process at most 20 KB.

    Threads are the worst case, since the slices themselves are done in that process; the benchmark has 5,000 slices on
    every engine.
    """
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the disk is not the question, and takes most of the time
    source = write_table(tmp_path / "t.parquet", plain_columns(1_000))
    seen: dict[int, int] = {}

    def listen(snapshot: Snapshot) -> None:
        if snapshot.num_ended in {200, 1_000}:
            seen[snapshot.num_ended] = psutil.Process().memory_info().rss

    token = LISTENER.set(listen)
    try:
        options = {"transform": "rows", "columns": ["row"], "rows_per_slice": 1, "engine": "threads"}
        ingest(source=str(source), destination=str(tmp_path / "set"), **options)
    finally:
        LISTENER.reset(token)
    assert (seen[1_000] - seen[200]) / 800 <= 20_000
