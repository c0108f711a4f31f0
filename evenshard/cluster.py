"""The process that holds a cluster: takes errands from its parent, has them done, and ends with its parent."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final, Protocol

from evenshard.adapters.cluster_process import START, ClusterSettings
from evenshard.core.errors import ClusterError, EvenshardError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

EXTRAS: Final = {"dask": "distributed", "ray": "ray"}
"""Engine to the package that it needs; the extra is called as the engine is."""


class Cluster(Protocol):
    """What has errands done by processes somewhere; any number of threads may ask it at once."""

    num_slots: int
    """Errands that it does at once."""

    def run(self, errand: bytes, report: Callable[[bytes], None], cancelled: threading.Event) -> bytes:
        """Have one errand done by `remote.do_slice`; gives its answer.

        Raises:
            ClusterError: the cluster lost it, or was lost, or nobody waits for it any more.
        """


def open_cluster(settings: ClusterSettings) -> AbstractContextManager[Cluster]:
    """Start a cluster, or connect to one.

    Raises:
        OptionError: its package is not installed, or there is no such cluster.
    """
    try:
        if settings.engine == "dask":
            from evenshard.adapters.dask_cluster import DaskCluster  # noqa: PLC0415 - not everybody has it

            return DaskCluster(settings)
        from evenshard.adapters.ray_cluster import RayCluster  # noqa: PLC0415 - the same

        return RayCluster(settings)
    except ImportError as error:
        raise missing(settings.engine, error) from None


def missing(engine: str, error: ImportError | None = None) -> OptionError:
    """Say what to install."""
    because = f" ({error})" if error else ""
    return OptionError(
        "engine",
        f"{engine} needs the package {EXTRAS[engine]}, which is not installed here{because}: "
        f"pip install 'evenshard[{engine}]'",
    )


class _Link:
    """The connection to the parent; many threads speak on it. A parent that is gone is told nothing."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection, self._lock = connection, threading.Lock()

    def tell(self, number: int, kind: str, message: object) -> None:
        with suppress(OSError), self._lock:
            self._connection.send((number, kind, message))

    def hear(self) -> Any:  # noqa: ANN401 - what the parent says
        """Give the next message; None when there will be none."""
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            return None


def serve(link: _Link, cluster: Cluster) -> None:
    """Have errands done as they come, each in a thread, until the parent says no more or is gone."""
    waiting: dict[int, threading.Event] = {}
    while (heard := link.hear()) is not None:
        number, errand = heard
        if errand is None:
            if number in waiting:
                waiting[number].set()
            continue
        waiting = {known: event for known, event in waiting.items() if not event.is_set()}
        waiting[number] = threading.Event()
        threading.Thread(target=_do, args=(link, cluster, number, errand, waiting[number]), daemon=True).start()
    for event in waiting.values():
        event.set()


def _do(link: _Link, cluster: Cluster, number: int, errand: bytes, cancelled: threading.Event) -> None:
    try:
        answer = cluster.run(errand, lambda message: link.tell(number, "progress", message), cancelled)
        link.tell(number, "answer", answer)
    except ClusterError as error:
        link.tell(number, "lost", str(error))
    except Exception as error:  # noqa: BLE001 - a foreign library's: it must be an answer, or the run waits for ever
        link.tell(number, "lost", f"{type(error).__name__}: {first_line(error)}")
    finally:
        cancelled.set()


def first_line(error: BaseException) -> str:
    """Give what a foreign error says, as far as one line holds it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else "no more is known"


def main() -> None:
    """Be the process; the socket's descriptor is the first argument."""
    connection: Connection[Any, Any] = Connection(int(sys.argv[1]))
    link = _Link(connection)
    settings = link.hear()
    if settings is not None:
        try:
            with open_cluster(settings) as cluster:
                link.tell(START, "answer", cluster.num_slots)
                serve(link, cluster)
        except Exception as error:  # noqa: BLE001 - the parent raises it
            known = isinstance(error, EvenshardError)
            link.tell(START, "error", error if known else ClusterError(f"{type(error).__name__}: {first_line(error)}"))
    os.killpg(0, signal.SIGKILL)  # this process leads a group of its own: what is left of a cluster goes with it
