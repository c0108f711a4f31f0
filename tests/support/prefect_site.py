"""A Prefect server of its own, the project's deployments on it, and a process worker: as on a real machine."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import yaml

from tests.support.processes import kill_all
from tests.support.programs import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

FILE = "deployments/prefect.yaml"
HANG_SECONDS = 300
ENDS = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


class Site:
    """What tests do on it. They wait on states, never for a time.

    Args:
        api_url: of the server.
        environment: of programs that use it.
        log: what the worker prints, and its runs.
    """

    def __init__(self, api_url: str, environment: dict[str, str], log: Path) -> None:
        self.api_url, self.environment, self.log = api_url, environment, log
        self._client = httpx.Client(base_url=api_url, timeout=60)

    def close(self) -> None:
        """Close what it asks with."""
        self._client.close()

    def command(self, *arguments: str) -> str:
        """Run the command `prefect` to its end; gives what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "prefect", "--no-prompt", *arguments],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False, timeout=HANG_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ask(self, method: str, path: str, **body: Any) -> Any:  # noqa: ANN401 - JSON
        """Ask the server's API."""
        for _ in range(5):
            answer = self._client.request(method, path, json=body or None)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                break  # it says 503 while its database is locked; Prefect's own client asks again, too
            threading.Event().wait(2)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def start(self, name: str, **parameters: Any) -> str:  # noqa: ANN401 - JSON
        """Start a run of a deployment, `flow/name`; gives its id."""
        deployment = self.ask("GET", f"/deployments/name/{name}")
        state = {"type": "SCHEDULED", "name": "Scheduled"}
        given = {"state": state, "parameters": {**deployment["parameters"], **parameters}}
        return str(self.ask("POST", f"/deployments/{deployment['id']}/create_flow_run", **given)["id"])

    def run(self, run_id: str) -> dict[str, Any]:
        """Give a run as it is now."""
        found: dict[str, Any] = self.ask("GET", f"/flow_runs/{run_id}")
        return found

    def runs(self, flow: str, **extra: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - JSON
        """Give the runs of a flow, the oldest first."""
        given: dict[str, Any] = {"flows": {"name": {"any_": [flow]}}, "sort": "START_TIME_ASC", **extra}
        found: list[dict[str, Any]] = self.ask("POST", "/flow_runs/filter", **given)
        return found

    def wait(self, is_so: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is waited for
        """Wait until something is so, and give it; with the worker's log if that takes minutes."""
        due, pause = time.monotonic() + HANG_SECONDS, threading.Event()
        while not (found := is_so()):
            assert time.monotonic() < due, self.log.read_text("utf-8", "replace")[-8000:]
            pause.wait(0.2)
        return found

    def wait_for_end(self, run_id: str) -> dict[str, Any]:
        """Wait until a run has ended; gives its last state."""
        state: dict[str, Any] = self.wait(lambda: self._ended(run_id))
        return state

    def _ended(self, run_id: str) -> dict[str, Any] | None:
        state: dict[str, Any] = self.run(run_id)["state"]
        return state if state["type"] in ENDS else None

    def cancel(self, run_id: str) -> None:
        """Cancel a run, as the button does."""
        self.ask("POST", f"/flow_runs/{run_id}/set_state", state={"type": "CANCELLING", "name": "Cancelling"})

    def deploy(self, folder: Path, entry_name: str, **changed: Any) -> None:  # noqa: ANN401 - as the file has it
        """Deploy an entry of the project's file with some of it changed, its name for instance."""
        entry = next(entry for entry in deployments() if entry["name"] == entry_name) | changed
        (folder / "own.yaml").write_text(yaml.safe_dump({"name": "own", "pull": [], "deployments": [entry]}))
        self.command("deploy", "--prefect-file", str(folder / "own.yaml"), "--all")

    @contextmanager
    def worker(self, pool: str) -> Iterator[psutil.Process]:
        """Have a worker on a pool; it and what it started are killed with the block."""
        command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", pool]
        with self.log.open("ab") as log:
            out: dict[str, Any] = {"stdout": log, "stderr": subprocess.STDOUT, "start_new_session": True}
            with subprocess.Popen(command, cwd=ROOT, env=self.environment, **out) as process:
                try:
                    yield psutil.Process(process.pid)
                finally:
                    kill_all(psutil.Process(process.pid))

    def process_of(self, run_id: str) -> psutil.Process | None:
        """Find the process that a worker started for a run."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("PREFECT__FLOW_RUN_ID") == run_id and process.ppid() != os.getpid():
                    return process
        return None


@contextmanager
def prefect_site(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Start server and worker, and deploy everything; all of it ends with the block."""
    from flows.server import PrefectServer  # noqa: PLC0415 - Prefect's settings come first

    own = {
        **os.environ,
        "PREFECT_HOME": str(folder / "home"),
        "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "1",
        "PREFECT_SERVER_SERVICES_SCHEDULER_DEPLOYMENT_LOOP_SECONDS": "1",
        "PREFECT_SERVER_SERVICES_SCHEDULER_MIN_SCHEDULED_TIME": "PT1S",  # else the runs of an hour stand in line
        "PREFECT_SERVER_SERVICES_SCHEDULER_MIN_RUNS": "1",
        "PREFECT_SERVER_DATABASE_TIMEOUT": "60",  # SQLite takes long where the machine has much to do
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",  # the shortest that there is
        "PYTHONPATH": str(ROOT),
    }
    monkeypatch.setattr("flows.server.server_environment", lambda: own)
    server = PrefectServer()
    try:
        server.wait_until_ready()
        site = Site(server.api_url, {**own, "PREFECT_API_URL": server.api_url}, folder / "worker.log")
        site.command("work-pool", "create", "evenshard", "--type", "process")
        site.command("deploy", "--prefect-file", FILE, "--all")
        with closing(site), site.worker("evenshard"):
            yield site
    finally:
        server.close()


def deployments() -> list[dict[str, Any]]:
    """Read what is deployed."""
    text = (ROOT / FILE).read_text("utf-8")
    found: list[dict[str, Any]] = yaml.safe_load(text)["deployments"]
    return found
