"""The parts of many members in the members' order: read here, or ahead by worker processes."""

from __future__ import annotations

from collections import deque
from itertools import chain
from multiprocessing import connection
from typing import TYPE_CHECKING, Final, NoReturn, Self

from evenshard.adapters.archive import read_member
from evenshard.adapters.child_process import ChildProcess
from evenshard.adapters.part_pipe import Receiver, send
from evenshard.core.errors import EvenshardError, ReaderDiedError, UsageError
from evenshard.core.texts import Part

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from evenshard.adapters.part_pipe import Message
    from evenshard.core.texts import Member

MODULE: Final = "evenshard.archive_worker"
MEMBERS_PER_WORKER: Final = 2
"""Told to a worker at once: one to read, and the next, so that it need not wait for an answer."""
MAX_AHEAD_BYTES: Final = 2**23
"""Of parts that a worker has handed over before their turn. Beyond it, the worker waits."""


def read_here(members: Sequence[Member]) -> Iterator[Part]:
    """Read in this process."""
    return chain.from_iterable(map(read_member, members))


class ProcessReaders:
    """Worker processes that read members, one each at a time, and whose parts come in the members' order.

    A worker is given a member when it is done with one, so that none waits for a slower one; but what it hands over
    before its turn is bounded. It needs no thread here: whoever takes a part waits for it, and meanwhile takes in
    what the other workers have.

    Args:
        members: to be read, in this order.
        num_workers: processes, no more than there are members.
        max_ahead: documents that a worker may hand over before their turn.
    """

    def __init__(self, members: Sequence[Member], *, num_workers: int, max_ahead: int) -> None:
        self.children: list[ChildProcess] = []
        self._members = iter(members)
        self._num_workers = min(num_workers, len(members))
        self._max_ahead = max_ahead
        self._workers: list[_Worker] = []
        self._turns: deque[_Worker] = deque()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Part:
        """Give the next part.

        Raises:
            ReaderDiedError: a worker died at a member.
            ArchiveError: a member's archive could not be read.
            UsageError: this is a copy in a forked process.
        """
        if not self._workers:
            self._start()
        if not self._turns:
            raise StopIteration
        worker = self._turns[0]
        if not worker.child.is_ours:
            raise UsageError("an iterator belongs to the process that began it; call iter(loader) in this one")
        while not worker.parts:
            self._receive(worker)
        part = worker.take()
        if part.is_last:
            self._turns.popleft()
        return part

    def end(self) -> None:
        """End all processes, the first before any is waited for."""
        for child in self.children:
            child.kill()
        for child in self.children:
            child.end()

    def _start(self) -> None:
        for _ in range(self._num_workers):
            self.children.append(ChildProcess(MODULE))  # first of all where it will be ended from
            self._workers.append(_Worker(self.children[-1]))
        for _ in range(MEMBERS_PER_WORKER):
            for worker in self._workers:
                self._assign(worker)

    def _assign(self, worker: _Worker) -> None:
        member = next(self._members, None)
        if member is not None:
            worker.give(member)
            self._turns.append(worker)

    def _receive(self, awaited: _Worker) -> None:
        """Wait, and take in one message of each worker that has one and may hand over more."""
        busy = [worker for worker in self._workers if worker.members]
        heard = [worker for worker in busy if worker is awaited or not worker.is_ahead(self._max_ahead)]
        ready = connection.wait([each.child.connection for each in heard] + [each.child.watch for each in busy])
        for worker in busy:
            if worker in heard and worker.child.connection in ready:
                if worker.receive():
                    self._assign(worker)
            elif worker.child.watch in ready:
                worker.raise_its_death()


class _Worker:
    """One process, what it was told to read, and what it has handed over."""

    def __init__(self, child: ChildProcess) -> None:
        self.child = child
        self.members: deque[Member] = deque()
        self.parts: deque[Message] = deque()
        self._receiver = Receiver(child.connection.fileno())
        self._ahead_documents = 0
        self._ahead_bytes = 0

    def is_ahead(self, max_documents: int) -> bool:
        """Say whether it has handed over enough before its turn."""
        return self._ahead_documents > max_documents or self._ahead_bytes > MAX_AHEAD_BYTES

    def give(self, member: Member) -> None:
        """Have a member read after those it was given before."""
        self.members.append(member)
        try:
            send(self.child.connection.fileno(), member)
        except OSError:
            self.raise_its_death()

    def receive(self) -> bool:
        """Take in one message; says whether a member is done with it.

        An error waits for its turn like any part, so that it comes behind the same documents each time.
        """
        try:
            part = self._receiver.receive()
        except (EOFError, OSError):
            self.raise_its_death()
        self.parts.append(part)
        if isinstance(part, Part):
            self._ahead_documents += len(part.documents)
            self._ahead_bytes += part.num_bytes
        is_done = not isinstance(part, Part) or part.is_last
        if is_done:
            self.members.popleft()
        return is_done

    def take(self) -> Part:
        """Give the first of its parts, or raise the error that came instead."""
        part = self.parts.popleft()
        if isinstance(part, EvenshardError):
            raise part
        if not isinstance(part, Part):
            raise TypeError(f"a worker sent a {type(part).__name__}")
        self._ahead_documents -= len(part.documents)
        self._ahead_bytes -= part.num_bytes
        return part

    def raise_its_death(self) -> NoReturn:
        """Name what it was reading."""
        member = self.members[0]
        raise ReaderDiedError(member.archive, member.name, self.child.how_it_died())
