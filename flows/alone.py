"""One run at a time on one destination, whichever flow, deployment or program started it.

Prefect's limit on runs of a deployment knows nothing of destinations. The store is the last judge in any case;
this spares the second run the work.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from prefect.client.orchestration import get_client
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectAlreadyExists
from prefect.logging import get_run_logger

from evenshard.core.errors import BusyError
from flows.config import absolute
from flows.progress import LISTENER, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from flows.config import RunOptions

LEASE_SECONDS: Final = 60.0
"""A run that was killed holds its place for so long; no shorter lease can be had."""
LOOK_SECONDS: Final = 1.0
"""How long a place is asked for before the run says that it waits, or stops."""


@contextmanager
def alone(options: RunOptions) -> Iterator[None]:
    """Be the only run on the destination while the block lasts, if that is wanted.

    Raises:
        BusyError: another one is at work there, and this one is not to wait.
    """
    if options.on_busy == "go":
        yield
        return
    destination = absolute(options.destination)
    place = _limit_of(destination)
    with ExitStack() as held:
        try:
            held.enter_context(_place(place, timeout_seconds=LOOK_SECONDS))
        except TimeoutError as error:
            if options.on_busy == "stop":
                raise BusyError(f"another run is at work on {destination}; nothing was begun") from error
            _tell(f"another run is at work on {destination}; waiting until it has ended")
            held.enter_context(_place(place))
        yield


def _tell(notice: str) -> None:
    get_run_logger().info("%s", notice)
    if listener := LISTENER.get():
        listener(Snapshot(planned=0, notice=notice))


def _place(name: str, *, timeout_seconds: float | None = None) -> AbstractContextManager[None]:
    return concurrency(name, timeout_seconds=timeout_seconds, lease_duration=LEASE_SECONDS, strict=True)


def _limit_of(destination: str) -> str:
    """Give the name of the destination's limit, which is made if there is none."""
    told = re.sub(r"[^\w.-]+", "_", destination, flags=re.ASCII)[-60:].strip("_")
    name = f"evenshard-{told}-{hashlib.sha256(destination.encode()).hexdigest()[:8]}"
    with get_client(sync_client=True) as client, suppress(ObjectAlreadyExists):  # made by another run at this moment
        client.upsert_global_concurrency_limit_by_name(name, limit=1)
    return name
