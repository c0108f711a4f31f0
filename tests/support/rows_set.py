"""Small sets of plain rows, made without an orchestrator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenshard.clients import Clients
from evenshard.core.plan import Mode
from evenshard.planning import Request
from evenshard.publish import publish
from evenshard.slices import RunSettings, make_job
from evenshard.work import begin
from evenshard.worker import SliceWorker

if TYPE_CHECKING:
    from pathlib import Path

    from evenshard.core.manifest import Manifest
    from evenshard.core.store import Store

ROWS = Request(transform="rows", rows_per_slice=3, mode=Mode.APPEND)


def append_rows(source: Path | str, folder: Path | str, request: Request = ROWS) -> Manifest:
    """Do what a run does: plan, claim, every slice, publish; gives what is published in the end."""
    while True:
        work = begin(str(source), request, str(folder))
        if work.plan is None:
            assert work.current is not None
            return work.current
        with Clients() as clients:
            worker = SliceWorker(clients)
            for index in range(work.plan.num_slices):
                settings = RunSettings(destination=str(folder))
                worker.run(make_job(work.plan, index, settings, fingerprint=work.plan.fingerprint), lambda _: None)
        manifest = publish(work.plan, store_of(folder))
        if not work.is_resumed:
            return manifest


def store_of(folder: Path | str) -> Store:
    """Open a folder, or a place in S3, as the engine does."""
    from evenshard import stores  # noqa: PLC0415 - looked up anew: tests put faulty stores there

    return stores.open_store(str(folder))
