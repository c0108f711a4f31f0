"""Programs that read with a loader and end in some way; started by tests as `python -m ... NAME ARCHIVE...`."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from evenshard import OpenWebTextLoader, shuffle
from tests.support.processes import reader_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it would be ignored, and the tests wait for its effect


def _begun(paths: list[str]) -> Iterator[Any]:
    """Begin an epoch, and say which processes read for it."""
    iterator = iter(OpenWebTextLoader(paths, 2, 30, random_state=1))
    next(iterator)
    print(*(process.pid for process in reader_processes()), flush=True)
    return iterator


def exits(paths: list[str]) -> None:
    """Come to the end of the program with a live iterator, also inside a cycle of references."""
    cycle: list[Any] = [_begun(paths), shuffle(_begun(paths), 5)]
    cycle.append(cycle)
    globals()["kept"] = cycle


def fails(paths: list[str]) -> None:
    """Raise in the middle of an epoch."""
    for _ in _begun(paths):
        raise ValueError("the consumer's own")


def exits_in_a_thread(paths: list[str]) -> None:
    """Read in a thread that is still reading when the program ends."""
    started = threading.Event()

    def read() -> None:
        for _ in _begun(paths):
            started.set()
            threading.Event().wait()

    threading.Thread(target=read, daemon=True).start()
    started.wait()


def waits(paths: list[str]) -> None:
    """Wait with a live iterator for a signal."""
    iterator = _begun(paths)
    print("waiting", flush=True)
    signal.pause()
    next(iterator)


def waits_for_a_part(paths: list[str]) -> None:
    """Wait inside `next` for a part that never comes, since the workers were stopped."""
    iterator = _begun(paths)
    for process in reader_processes():
        process.suspend()
    threading.Timer(0, lambda: print("waiting", flush=True)).start()
    for _ in iterator:
        pass


def forks(paths: list[str]) -> None:
    """Fork with a live iterator: the copy may neither be used nor end the processes of the original."""
    iterator = _begun(paths)
    child = os.fork()
    if child == 0:
        try:
            for _ in iterator:
                pass
        except ValueError as error:
            print(type(error).__name__, error, flush=True)
        iterator.close()  # type: ignore[attr-defined]
        del iterator
        gc.collect()
        sys.exit(0)
    os.waitpid(child, 0)
    print(1 + sum(1 for _ in iterator))


def holds(paths: list[str]) -> None:
    """Fork with a live iterator, and die while the copy lives on."""
    iterator = _begun(paths)
    child = os.fork()
    if child == 0:
        signal.pause()
    print(child, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    next(iterator)


def _count(paths: list[str], results: Any) -> None:  # noqa: ANN401 - a queue of some start method
    results.put(sum(1 for _ in OpenWebTextLoader(paths, 2)))


def starts(paths: list[str]) -> None:
    """Use loaders with each start method as the default one, and in processes started by each, daemons too."""
    for method in ("fork", "spawn", "forkserver"):
        multiprocessing.set_start_method(method, force=True)
        counts = [sum(1 for _ in OpenWebTextLoader(paths, 2))]
        results: Any = multiprocessing.Queue()
        for daemon in (False, True):
            process = multiprocessing.Process(target=_count, args=(paths, results), daemon=daemon)
            process.start()
            counts.append(results.get())
            process.join()
        print(method, *counts)
    print(*reader_processes())


PROGRAMS: dict[str, Callable[[list[str]], None]] = {
    each.__name__: each for each in (exits, fails, exits_in_a_thread, waits, waits_for_a_part, forks, holds, starts)
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](sys.argv[2:])
