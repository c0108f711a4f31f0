"""Deployments served by one process, for a machine without a worker."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from evenshard.adapters.local_store import LocalStore
from evenshard.inspection import verify
from tests.support.prefect_site import Site
from tests.support.programs import ROOT, environment
from tests.support.tables import plain_columns, write_table

if TYPE_CHECKING:
    from pathlib import Path

NAMES = {"ingest", "ingest-text", "ingest-nightly", "retry-failed-weekly", "ingest-nodes", "ingest-node"}


def all_deployed(site: Site) -> list[dict[str, Any]] | None:
    """Give the deployments once all are there."""
    found: list[dict[str, Any]] = site.ask("POST", "/deployments/filter")
    return found if len(found) == len(NAMES) else None


def test_run_is_done_when_the_deployments_are_served(tmp_path: Path) -> None:
    """All deployments are there, schedules as they are in the file; a run that is asked for is done by that process."""
    write_table(tmp_path / "t.parquet", plain_columns(20))
    given = environment()
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-m", "deployments.serve"]
        serving = subprocess.Popen(command, cwd=ROOT, env=given, stdout=log, stderr=subprocess.STDOUT)
    try:
        site = Site(given["PREFECT_API_URL"], given, tmp_path / "log")
        with closing(site):
            found = site.wait(lambda: all_deployed(site))
            assert NAMES == {each["name"] for each in found}
            assert {"nightly": False, "weekly": False} == {
                each["slug"]: each["active"] for entry in found for each in entry["schedules"]
            }
            asked = {"source": str(tmp_path / "t.parquet"), "destination": str(tmp_path / "set"), "transform": "rows"}
            assert "COMPLETED" == site.wait_for_end(site.start("ingest/ingest", **asked))["type"]
            assert 20 == verify(LocalStore(tmp_path / "set")).counts.stored
    finally:
        serving.terminate()
        assert serving.wait(60) is not None
