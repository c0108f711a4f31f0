"""Deployments: by `prefect deployment run`, by a schedule, by several nodes; on a real server and process worker."""

from __future__ import annotations

import threading
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from evenshard.adapters.local_store import LocalStore
from evenshard.generations import list_generations
from evenshard.inspection import Depth, verify
from flows.ingest import ingest
from flows.node import ingest_node
from tests.support.archives import documents, packed, write_archive
from tests.support.pictures import jpeg
from tests.support.prefect_site import Site, deployments, prefect_site
from tests.support.processes import kill_all
from tests.support.programs import ROOT
from tests.support.sets import published_bytes, read_set
from tests.support.tables import link_columns, plain_columns, write_table
from tests.support.web import Answer, Web

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = {"transform": "rows", "engine": "threads"}
NUM_LINKS = 90


@pytest.mark.parametrize("deployment", deployments(), ids=lambda deployment: deployment["name"])
def test_deployment_is_of_a_flow_and_its_parameters(deployment: dict[str, Any]) -> None:
    """Each entry names a flow that is there, parameters that it has, and a slug and zone for each schedule."""
    module, _, name = deployment["entrypoint"].rpartition(".")
    flow = getattr(import_module(module), name)
    assert deployment.get("parameters", {}).keys() <= flow.parameters.properties.keys()
    assert {"description", "tags"} <= deployment.keys()
    for schedule in deployment.get("schedules", []):
        assert {"cron", "timezone", "slug"} <= schedule.keys()
        assert schedule["active"] is False


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Have a server with all deployments, and a worker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVENSHARD_ALLOW_HOSTS", "127.0.0.1")
        with prefect_site(tmp_path_factory.mktemp("site"), patch) as site:
            yield site


def rows_of(folder: Path) -> list[int]:
    """Give the numbers of all rows in a set, which must be whole."""
    verify(LocalStore(folder), depth=Depth.DEEP)
    return [sample["row"] for sample in read_set(folder)]


def test_set_grows_when_runs_are_deployed_and_scheduled(site: Site, tmp_path: Path) -> None:
    """20 rows by a deployment's run; again, nothing new; then what is new, by the schedule.

    Source: Lightning-AI/litData#865, rom1504/img2dataset#171, PrefectHQ/prefect#12456.
    """
    table, folder = tmp_path / "t", tmp_path / "set"
    write_table(table / "a.parquet", plain_columns(20))
    given = {"source": str(table), "destination": str(folder), **ROWS}
    typed = [part for name, value in given.items() for part in ("-p", f"{name}={value}")]
    for _ in range(2):
        told = site.command("deployment", "run", "ingest/ingest", *typed, "--watch")
        assert "Completed" in told
        assert list(range(20)) == rows_of(folder)
    assert [1] == list_generations(LocalStore(folder))

    write_table(table / "b.parquet", plain_columns(8, start=17))  # three rows are repeated, five are new
    nightly = next(entry for entry in deployments() if entry["name"] == "ingest-nightly")
    schedules = [{"interval": 5, "timezone": "UTC", "slug": "nightly", "active": True}]
    given = {**nightly["parameters"], **given}
    site.deploy(tmp_path, "ingest-nightly", name="by-schedule", parameters=given, schedules=schedules)
    site.wait(lambda: [1, 2] == list_generations(LocalStore(folder)))
    site.command("deployment", "schedule", "clear", "ingest/by-schedule", "-y")
    scheduled = [run for run in site.runs("ingest") if run["auto_scheduled"]]
    ends = [site.wait_for_end(run["id"]) for run in scheduled]
    assert {end["type"] for end in ends} <= {"COMPLETED", "CANCELLED"}, ends
    assert [*range(20), *range(17, 25)] == rows_of(folder)
    assert [1, 2] == list_generations(LocalStore(folder))


def test_archives_are_added_when_their_deployment_runs(site: Site, tmp_path: Path) -> None:
    """Texts come by a deployment, too; what is new is added by its next run."""
    given = {"source": str(tmp_path / "a"), "destination": str(tmp_path / "set"), "engine": "threads"}
    for number in (1, 2):
        write_archive(tmp_path / f"a/{number}.tar", {"x.xz": packed(documents(2, str(number)))})
        assert "COMPLETED" == site.wait_for_end(site.start("ingest-text/ingest-text", **given))["type"]
    verify(LocalStore(tmp_path / "set"), depth=Depth.DEEP)
    assert ["1.tar", "1.tar", "2.tar", "2.tar"] == [sample["archive"] for sample in read_set(tmp_path / "set")]


class Links:
    """A table of links to pictures whose width tells their row; some are held back until it is time."""

    def __init__(self, web: Web, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_held, self._pause = True, threading.Event()
        self.folder = folder
        web.answer = self._answer
        source = write_table(folder / "t.parquet", link_columns([f"{web.address}/{row}" for row in range(NUM_LINKS)]))
        self.given = {"source": str(source), "columns": ["row"], "nodes": 3, "rows_per_slice": 5, "engine": "threads"}
        self.given |= {"engine_workers": 2, "timeout": 300, "attempts": 1, "allow_hosts": ["127.0.0.1"]}
        monkeypatch.setenv("EVENSHARD_ALLOW_HOSTS", "127.0.0.1")

    def _answer(self, path: str) -> Answer:
        row = int(path[1:])
        while self.is_held and row % 30 >= 10:  # two slices of each node come at once
            self._pause.wait(0.05)
        return Answer(body=jpeg(row + 20, 30))

    def receipts(self, name: str) -> int:
        """Count the slices of a set that are signed for."""
        return len(list((self.folder / name / ".evenshard/receipts/g0001").glob("*.json")))

    def undisturbed(self) -> dict[str, bytes]:
        """Give the bytes of a set that is made here, from the same plan."""
        self.is_held = False
        ingest(destination=str(self.folder / "undisturbed"), **self.given)
        return published_bytes(self.folder / "undisturbed")


@pytest.fixture
def links(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Links]:
    """Give a table; nothing is held back when the test ends."""
    made = Links(web, tmp_path, monkeypatch)
    yield made
    made.is_held = False


def test_run_is_resumed_when_it_was_cancelled_in_the_middle(site: Site, links: Links, tmp_path: Path) -> None:
    """It ends as cancelled, publishes nothing, and the next run makes the same bytes as one that nobody stopped."""
    given = {**links.given, "destination": str(tmp_path / "set")}
    cancelled = site.start("ingest/ingest", **given)
    site.wait(lambda: links.receipts("set") >= 2)
    site.cancel(cancelled)
    assert "CANCELLED" == site.wait_for_end(cancelled)["type"]
    assert not (tmp_path / "set/manifest.json").exists()
    links.is_held = False
    assert "COMPLETED" == site.wait_for_end(site.start("ingest/ingest", **given))["type"]
    assert list(range(NUM_LINKS)) == rows_of(tmp_path / "set")
    assert links.undisturbed() == published_bytes(tmp_path / "set")


def test_night_is_cancelled_when_the_last_is_at_work(site: Site, links: Links, tmp_path: Path) -> None:
    """The second run of the nightly deployment ends as cancelled at once; the first goes on to its end."""
    given = {**links.given, "destination": str(tmp_path / "set")}
    first = site.start("ingest/ingest-nightly", **given)
    site.wait(lambda: links.receipts("set") >= 2)
    assert "CANCELLED" == site.wait_for_end(site.start("ingest/ingest-nightly", **given))["type"]
    links.is_held = False
    assert "COMPLETED" == site.wait_for_end(first)["type"]
    assert list(range(NUM_LINKS)) == rows_of(tmp_path / "set")


def node_runs(site: Site, destination: Path) -> list[dict[str, Any]]:
    """Give the nodes' runs for a destination."""
    return [run for run in site.runs("ingest-node") if run["parameters"]["destination"] == str(destination)]


def test_nodes_make_the_same_bytes_when_one_is_killed(site: Site, links: Links, tmp_path: Path) -> None:
    """Three nodes, each a run of its own; the process of one is killed, it is started again and does what is left."""
    given = {**links.given, "destination": str(tmp_path / "set")}
    parent = site.start("ingest-nodes/ingest-nodes", **given)
    site.wait(lambda: links.receipts("set") >= 6)
    runs = node_runs(site, tmp_path / "set")
    assert [0, 1, 2] == sorted(run["parameters"]["node"] for run in runs)
    killed = next(run for run in runs if run["parameters"]["node"] == 1)
    process = site.wait(lambda: site.process_of(killed["id"]))
    process.kill()
    site.wait(lambda: len(node_runs(site, tmp_path / "set")) == 4)
    links.is_held = False
    state = site.wait_for_end(parent)
    assert "COMPLETED" == state["type"], state
    ends = sorted((run["parameters"]["node"], run["state"]["type"]) for run in node_runs(site, tmp_path / "set"))
    assert [(0, "COMPLETED"), (1, "COMPLETED"), (1, "CRASHED"), (2, "COMPLETED")] == ends
    assert list(range(NUM_LINKS)) == rows_of(tmp_path / "set")
    assert links.undisturbed() == published_bytes(tmp_path / "set")

    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "set").rglob("*")}
    assert {"node": 2, "slices": 0} == ingest_node(**node_runs(site, tmp_path / "set")[-1]["parameters"] | {"node": 2})
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "set").rglob("*")}


def test_nodes_are_cancelled_with_the_run_that_started_them(site: Site, links: Links, tmp_path: Path) -> None:
    """All four end as cancelled, nothing is published; a new run does what is left."""
    given = {**links.given, "destination": str(tmp_path / "set")}
    parent = site.start("ingest-nodes/ingest-nodes", **given)
    site.wait(lambda: links.receipts("set") >= 6)
    site.cancel(parent)
    assert "CANCELLED" == site.wait_for_end(parent)["type"]
    ends = [site.wait_for_end(run["id"])["type"] for run in node_runs(site, tmp_path / "set")]
    assert ["CANCELLED"] * 3 == ends
    assert not (tmp_path / "set/manifest.json").exists()
    links.is_held = False
    assert "COMPLETED" == site.wait_for_end(site.start("ingest-nodes/ingest-nodes", **given))["type"]
    assert links.undisturbed() == published_bytes(tmp_path / "set")


def test_run_names_the_slices_of_a_node_that_never_comes(site: Site, links: Links, tmp_path: Path) -> None:
    """No worker takes the nodes' runs: they are cancelled when patience ends, and each slice is named with its node."""
    links.is_held = False
    site.command("work-pool", "create", "nobody", "--type", "process")
    site.deploy(tmp_path, "ingest-node", name="nobody", work_pool={"name": "nobody"})
    given = {**links.given, "destination": str(tmp_path / "set"), "node_patience": 3}
    never, gone = (
        site.wait_for_end(site.start("ingest-nodes/ingest-nodes", node_deployment=f"ingest-node/{name}", **given))
        for name in ("nobody", "gone")
    )
    assert ("FAILED", "FAILED") == (never["type"], gone["type"])
    assert "18 slices are not finished: slice 0: node 0, attempt 1: its run is " in never["message"]
    assert "there is no deployment 'ingest-node/gone'; deploy it with `prefect deploy`" in gone["message"]
    assert {"CANCELLED"} == {run["state"]["type"] for run in node_runs(site, tmp_path / "set")}
    assert not (tmp_path / "set/manifest.json").exists()


def test_silent_runs_are_ended_when_the_automations_are_there(site: Site, links: Links, tmp_path: Path) -> None:
    """A run whose process and worker are killed is crashed; one that no worker takes is cancelled; one at work stays.

    Source: the project's automations, but that they wait for 40 and 10 s.
    """
    entries = yaml.safe_load(Path(ROOT, "deployments/automations.yaml").read_text("utf-8"))["automations"]
    for entry, seconds in zip(entries, (40, 10), strict=True):
        entry["trigger"]["within"] = seconds
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"automations": entries}))
    site.command("automation", "create", "--from-file", str(tmp_path / "own.yaml"))
    for pool in ("lost", "idle"):
        site.command("work-pool", "create", pool, "--type", "process")
        site.deploy(tmp_path, "ingest", name=pool, work_pool={"name": pool})

    late = site.start("ingest/idle", destination=str(tmp_path / "late"), **links.given)
    at_work = site.start("ingest/ingest", destination=str(tmp_path / "set"), **links.given)
    with site.worker("lost") as worker:
        lost = site.start("ingest/lost", destination=str(tmp_path / "lost"), **links.given)
        site.wait(lambda: links.receipts("lost") >= 2)
        process = site.wait(lambda: site.process_of(lost))
        worker.kill()  # first, since it would tell
        kill_all(process)
    assert "CANCELLED" == site.wait_for_end(late)["type"]
    ended = site.wait_for_end(lost)
    assert ("CRASHED", "It has told nothing for 600 s") == (ended["type"], ended["message"].partition(";")[0])
    assert "RUNNING" == site.run(at_work)["state"]["type"]
    links.is_held = False
    assert "COMPLETED" == site.wait_for_end(at_work)["type"]
