"""What a process does that reads archives for a loader: members come in, parts of them go out.

It ends with its connection or with its parent, in the middle of whatever it does: it has nothing to lose. It starts
anew for each epoch, and so imports little.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue
from select import POLLIN, poll
from typing import TYPE_CHECKING

from evenshard.adapters.archive import read_member
from evenshard.adapters.part_pipe import Receiver, send
from evenshard.core.errors import ArchiveError
from evenshard.core.texts import Member

if TYPE_CHECKING:
    from evenshard.adapters.part_pipe import Message


def main() -> None:
    """Read members until the other end closes; a socket's descriptor and the parent's number are the arguments."""
    descriptor, parent = map(int, sys.argv[1:3])
    members: SimpleQueue[Message] = SimpleQueue()
    threading.Thread(target=_receive, args=(descriptor, parent, members), daemon=True).start()
    with suppress(BrokenPipeError, ConnectionResetError):
        while isinstance(member := members.get(), Member):
            _read(member, descriptor)


def _read(member: Member, descriptor: int) -> None:
    """Send the parts of one member, and last, if there is one, the error that ended it."""
    try:
        for part in read_member(member):
            send(descriptor, part)
    except ArchiveError as error:
        send(descriptor, error)
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:  # noqa: BLE001 - the other end raises it, and must not wait for ever
        sys.excepthook(type(error), error, error.__traceback__)
        problem = f"{type(error).__name__}: {error}".splitlines()[0]
        send(descriptor, ArchiveError(member.archive, member.name, problem))


def _receive(descriptor: int, parent: int, members: SimpleQueue[Message]) -> None:
    """Take members in while the other end is there, and the parent: a copy that was forked off it may hold the end."""
    with suppress(EOFError, OSError):
        parent_watch = os.pidfd_open(parent)
        watched = poll()
        watched.register(descriptor, POLLIN)
        watched.register(parent_watch, POLLIN)
        receiver = Receiver(descriptor)
        # Had it died before the watch began, another process could have its number.
        while os.getppid() == parent and parent_watch not in dict(watched.poll()):
            members.put(receiver.receive())
    os._exit(0)
