"""Processes that others started, which may end while they are looked at."""

from __future__ import annotations

from contextlib import suppress

import psutil


def command_of(process: psutil.Process) -> str:
    """Give the command line of a process; empty once it has ended."""
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def kill_all(process: psutil.Process) -> None:
    """Kill a process and all that it started, if it is there."""
    with suppress(psutil.NoSuchProcess):
        for each in [*process.children(recursive=True), process]:
            with suppress(psutil.NoSuchProcess):
                each.kill()


def reader_processes() -> list[psutil.Process]:
    """Give those under this process that read for loaders, dead ones that nobody has waited for included."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.status() == psutil.STATUS_ZOMBIE or "evenshard.archive_worker" in process.cmdline():
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found
