"""A Ray cluster that does errands: one that is there already, or one of this process's own.

One actor for each slice at once, never restarted by Ray: a dead one fails its errand, and the next errand has a new
one. Errands, answers and reports are bytes. Ray starts neither its dashboard nor anything that looks outside: its
dashboard's process asks for the metadata of clouds, by name and address, even where usage statistics are off (2.60).
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Self

import ray
from ray._private import services
from ray._private.node import Node
from ray.exceptions import ActorUnschedulableError, GetTimeoutError, RayActorError, RayError

from evenshard.core.errors import ClusterError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from evenshard.adapters.cluster_process import ClusterSettings

REMOTE: Final = "evenshard.remote"
LOOPBACK: Final = "127.0.0.1"
TURN_SECONDS: Final = 0.4
"""How long a wait for an answer lasts before the worker is asked how far it is."""
ASK_SECONDS: Final = 5.0
"""How long it is waited for that; a worker that is busy in one long call is asked again later."""
PLACE_SECONDS: Final = 300.0
"""A cluster that has had no place for a worker for so long has none: Ray itself would wait for ever."""
STORE_BYTES: Final = 100 * 2**20
"""Memory for objects; nothing is kept in it, and Ray wants 75 MB at least."""


class RayCluster:
    """A connection to a cluster, and the cluster itself if it was started here.

    Args:
        settings: which.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings, self._ends = settings, ExitStack()
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._path = sys.path if settings.address is None else []

    def __enter__(self) -> Self:
        with self._ends:
            _be_quiet()
            address, wanted = self._settings.address, self._settings.num_workers
            if address is None:
                folder = self._ends.enter_context(_folder())
                self._ends.callback(_end_daemons)
                self._ends.callback(ray.shutdown)
                _start(folder, num_cpus=wanted or 1)
            else:
                self._ends.callback(ray.shutdown)
                _connect(address)
            self.num_slots = wanted or _free_cpus(address)
            self._ends = self._ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for seat in self._idle:
            ray.kill(seat)
        self._ends.close()

    def run(self, errand: bytes, report: Callable[[bytes], None], cancelled: threading.Event) -> bytes:
        """Have one errand done, by an actor that is idle or a new one; gives the answer.

        Raises:
            ClusterError: the actor died at it, there is no place for one, or nobody waits for it any more.
        """
        with self._lock:
            seat = self._idle.pop() if self._idle else None
        try:
            seat = seat or self._new_seat(cancelled)
            answer = _answer(seat, errand, report, cancelled)
        except RayActorError as error:
            raise ClusterError(f"the Ray worker died at it: {_why(error)}") from error
        except RayError as error:
            _kill(seat)
            raise ClusterError(f"Ray: {type(error).__name__}: {_why(error)}") from error
        except BaseException:
            _kill(seat)
            raise
        with self._lock:
            self._idle.append(seat)
        return answer

    def _new_seat(self, cancelled: threading.Event) -> Any:  # noqa: ANN401 - Ray's handle
        seat = _SEAT.remote(self._path)
        ready, due = seat.ready.remote(), time.monotonic() + PLACE_SECONDS
        while not _is_done(ready):
            if cancelled.is_set() or time.monotonic() > due:
                _kill(seat)
                raise ClusterError(f"the Ray cluster has had no free CPU for a worker for {PLACE_SECONDS:.0f} s")
        try:
            ray.get(ready)
        except ActorUnschedulableError as error:
            raise ClusterError(f"the Ray cluster has no place for a worker: {_why(error)}") from error
        return seat


class Seat:
    """An actor: does errands one after another in one thread, and says meanwhile how far it is.

    Args:
        path: where modules are looked for first, in a cluster on the caller's machine.
    """

    def __init__(self, path: list[str]) -> None:
        sys.path[:0] = [folder for folder in path if folder not in sys.path]
        self._thread = ThreadPoolExecutor(1)
        self._last: bytes | None = None

    def ready(self) -> None:
        """Answer, which says that there is a place."""

    def do(self, errand: bytes) -> tuple[bytes, bytes | None]:
        """Do an errand; gives its answer, and what was reported last."""
        self._last = None
        answer = self._thread.submit(import_module(REMOTE).do_slice, errand, self._hear).result()
        return answer, self._last

    def last(self) -> bytes | None:
        """Give what was reported last of what is being done."""
        return self._last

    def _hear(self, message: bytes) -> None:
        self._last = message


_remote: Any = ray.remote  # its types know neither actors with several calls at once nor handles
_SEAT: Final[Any] = _remote(max_restarts=0, max_task_retries=0, max_concurrency=2, num_cpus=1)(Seat)


def _answer(seat: Any, errand: bytes, report: Callable[[bytes], None], cancelled: threading.Event) -> bytes:  # noqa: ANN401
    promise, told = seat.do.remote(errand), None
    while not _is_done(promise):
        if cancelled.is_set():
            raise ClusterError("nobody waits for it any more")
        last = _last_of(seat)
        if last is not None and last != told:
            told = last
            report(last)
    answer: bytes
    answer, last = ray.get(promise)
    if last is not None and last != told:
        report(last)
    return answer


def _is_done(promise: Any) -> bool:  # noqa: ANN401 - Ray's reference
    return bool(ray.wait([promise], timeout=TURN_SECONDS)[0])


def _last_of(seat: Any) -> bytes | None:  # noqa: ANN401 - Ray's handle
    try:
        last: bytes | None = ray.get(seat.last.remote(), timeout=ASK_SECONDS)
    except GetTimeoutError:
        return None
    return last


def _kill(seat: Any) -> None:  # noqa: ANN401 - Ray's handle
    if seat is not None:
        ray.kill(seat)


def _why(error: BaseException) -> str:
    """Give what Ray says of it in one line, without the particulars that it lists below its first sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [lines[0], *(line for line in lines[1:] if "exit detail" in line or line.startswith("The actor is dead"))]
    return " ".join(told)[:400] if lines else type(error).__name__


def _start(folder: str, *, num_cpus: int) -> None:
    """Start Ray's daemons on loopback, without those that a cluster of one machine has no use for.

    No dashboard; none that asks for more machines; none that reads logs for a driver that wants none. Beside the
    reason above: all start at once, and Ray's raylet ends itself where its agents take more than 15 s (2.60).
    """
    services.start_api_server = lambda *_, **__: (None, None)  # as when it cannot start, which Ray takes as it comes
    node: Any = Node
    node.start_monitor = node.start_log_monitor = lambda _: None
    ray.init(
        address="local",
        num_cpus=num_cpus,
        num_gpus=0,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=STORE_BYTES,
        _node_ip_address=LOOPBACK,
        _temp_dir=folder,
    )


def _end_daemons() -> None:
    """End those of Ray's daemons that outlive its shutdown for a while, and write into its folder: its agents."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)


def _connect(address: str) -> None:
    try:
        ray.init(address=address, log_to_driver=False)
    except ImportError as error:  # ray:// has a client of its own
        raise OptionError("engine_address", f"{address} needs Ray's client: pip install 'ray[client]'") from error
    except (OSError, RuntimeError, ValueError, RayError) as error:
        raise OptionError("engine_address", f"no Ray cluster answers at {address}: {_why(error)}") from error


def _free_cpus(address: str | None) -> int:
    found = int(ray.available_resources().get("CPU", 0))
    if not found:
        raise OptionError(
            "engine_address",
            f"the Ray cluster at {address} has no free CPU; say with --engine-workers how many slices shall run at "
            "once when it has",
        )
    return found


@contextmanager
def _folder() -> Iterator[str]:
    """Give Ray a folder of its own, so that the next `address="auto"` of somebody else does not mean this cluster."""
    with tempfile.TemporaryDirectory(prefix="evenshard-ray-", ignore_cleanup_errors=True) as folder:
        yield folder


def _be_quiet() -> None:
    """Drop what Ray's daemons say on this process's outputs: the run's own would be drowned in it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
