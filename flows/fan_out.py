"""A deployment run for each node of a plan: started, watched, started again when it crashes, given up when it hangs."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.states import Cancelling

from evenshard.core.errors import OptionError
from evenshard.node import without_receipt
from evenshard.stores import open_store
from flows.config import NodeOptions, RunOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefect.client.schemas.objects import FlowRun, State

    from evenshard.core.plan import Plan
    from evenshard.slices import RunSettings
    from flows.config import NodesOptions

POLL_SECONDS: Final = 2.0
RECEIPTS_SECONDS: Final = 30.0
"""How often a node's receipts are listed: on S3 each thousand is a request."""
MAX_READ: Final = 200
"""Runs that the API tells of at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """One attempt at a node.

    Args:
        node, attempt: which, from 0 and from 1.
        run_id: of its flow run.
        missing: its slices that nobody had signed for at `looked_at`.
        alive_at: when it last moved, by this machine's clock: another state, or a receipt more.
        looked_at: when its receipts were last looked for.
        state: the name of its last known state.
    """

    node: int
    attempt: int
    run_id: UUID
    missing: tuple[int, ...]
    alive_at: float = field(default_factory=time.monotonic)
    looked_at: float = field(default_factory=time.monotonic)
    state: str = "Scheduled"
    has_begun: bool = False


class FanOut:
    """The runs of one plan's nodes.

    Args:
        plan: stored at the destination.
        options: of the parent; those about how a run is done are the nodes', too.
        settings: where.
    """

    def __init__(self, plan: Plan, options: NodesOptions, settings: RunSettings) -> None:
        self._plan, self._options = plan, options
        self._store = open_store(settings.destination)
        self._given = _given_to_nodes(options, plan, settings.destination)
        self._errors: dict[int, str] = {}
        self._logger = get_run_logger()

    def run(self) -> dict[int, str]:
        """Start a run for each node with slices to do, and wait for all; gives what was heard of those that failed.

        Raises:
            OptionError: there is no such deployment.
        """
        going: list[NodeRun] = []
        pause = threading.Event()
        try:
            for node in range(self._plan.world.num_nodes):
                missing = without_receipt(self._plan, self._store, self._plan.slices_of_node(node))
                if missing:
                    going.append(self._start(node, attempt=1, missing=missing))
            while going:
                pause.wait(POLL_SECONDS)
                runs = _read_runs(going)
                for each in list(going):
                    then = self._next(each, runs[each.run_id])
                    going.remove(each)
                    going += then
        except BaseException:  # cancelled, too: nobody would wait for them, or publish
            for each in going:
                with suppress(
                    ObjectNotFound, PrefectHTTPStatusError, httpx.HTTPError
                ):  # the others are to be told, too
                    self._cancel(each)
            raise
        return self._errors

    def _start(self, node: int, *, attempt: int, missing: tuple[int, ...]) -> NodeRun:
        name = self._options.node_deployment
        try:
            given, key = {**self._given, "node": node}, f"{flow_run.id}-{self._plan.fingerprint[:16]}-{node}-{attempt}"
            started = cast("FlowRun", run_deployment(name, parameters=given, timeout=0, idempotency_key=key))
        except ObjectNotFound:
            problem = f"there is no deployment {name!r}; deploy it with `prefect deploy`, or name another one"
            raise OptionError("node_deployment", problem) from None
        self._logger.info("node %d: %d slices to do, attempt %d: run %s", node, len(missing), attempt, started.name)
        return NodeRun(node=node, attempt=attempt, run_id=started.id, missing=missing)

    def _next(self, seen: NodeRun, run: FlowRun | None) -> Sequence[NodeRun]:
        """Give what goes on after a look at a node's run: the run, another attempt, or nothing."""
        state = None if run is None else run.state
        if state is None:
            return self._ended(seen, "its run is gone", again=True)
        if state.is_final():
            return self._ended(seen, _told(state), again=state.is_crashed() or state.is_cancelled())
        seen = self._looked_at(seen, state)
        idle = time.monotonic() - seen.alive_at
        if idle < self._options.node_patience:
            return [seen]
        self._cancel(seen)
        problem = f"its run is {seen.state} and has not moved for {idle:.0f} s, which --node-patience allows no longer"
        return self._ended(seen, problem, again=seen.has_begun)

    def _looked_at(self, seen: NodeRun, state: State[Any]) -> NodeRun:
        """Note whether it has moved."""
        now = time.monotonic()
        has_moved = state.name != seen.state
        if now - seen.looked_at > min(RECEIPTS_SECONDS, self._options.node_patience / 2):
            missing = without_receipt(self._plan, self._store, seen.missing)
            has_moved = has_moved or len(missing) < len(seen.missing)
            seen = replace(seen, missing=missing, looked_at=now)
        return replace(
            seen,
            alive_at=now if has_moved else seen.alive_at,
            state=str(state.name),
            has_begun=seen.has_begun or state.is_running(),
        )

    def _ended(self, seen: NodeRun, told: str, *, again: bool) -> Sequence[NodeRun]:
        """Start a node once more, if that may help; what it has left to do is known from the receipts alone."""
        missing = without_receipt(self._plan, self._store, seen.missing)
        if not missing:
            self._logger.info("node %d: all slices are signed for", seen.node)
            return []
        if again and seen.attempt < self._options.node_attempts:
            self._logger.warning("node %d: %s; %d slices are left, trying again", seen.node, told, len(missing))
            return [self._start(seen.node, attempt=seen.attempt + 1, missing=missing)]
        self._logger.error("node %d: %s; %d slices are missing", seen.node, told, len(missing))
        self._errors |= dict.fromkeys(missing, f"node {seen.node}, attempt {seen.attempt}: {told}")
        return []

    def _cancel(self, seen: NodeRun) -> None:
        """Ask for a run's end; one that never began is cancelled at once."""
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(seen.run_id, Cancelling(message="the run that started it waits no longer"))


def _given_to_nodes(options: NodesOptions, plan: Plan, destination: str) -> dict[str, Any]:
    """Make what all nodes' runs are given; a host's share is shared out among them."""
    given = options.model_dump(mode="json", include=set(RunOptions.model_fields))
    given |= {"destination": destination, "on_busy": "go"}
    given |= {"per_host": max(1, options.per_host // plan.world.num_nodes)}
    given |= {"source": options.source, "generation": plan.generation, "fingerprint": plan.fingerprint}
    return {name: value for name, value in given.items() if name in NodeOptions.model_fields}


def _read_runs(seen: Sequence[NodeRun]) -> dict[UUID, FlowRun | None]:
    """Ask the API for runs by their ids; None for one that is not there."""
    found: dict[UUID, FlowRun | None] = {each.run_id: None for each in seen}
    ids = list(found)
    with get_client(sync_client=True) as client:
        for first in range(0, len(ids), MAX_READ):
            some = FlowRunFilter(id=FlowRunFilterId(any_=ids[first : first + MAX_READ]))
            found |= {run.id: run for run in client.read_flow_runs(flow_run_filter=some, limit=MAX_READ)}
    return found


def _told(state: State[Any]) -> str:
    """Say in one line how a run ended."""
    message = (state.message or "").splitlines()
    return f"its run ended as {state.name}" + (f": {message[0][:300]}" if message else "")
