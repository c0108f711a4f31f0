"""A lock of objects, for S3 servers without conditional writes.

Whoever wants the lock writes a ticket of its own and lists all of them. It has the lock if its ticket is the
only one; else the earliest stays and waits for the others to go, which withdraw and come again. Since each
ticket is written before the listing that decides, of two at once at least one sees the other, whatever their
clocks say. A ticket counts for `LIFE_SECONDS` by the server's clock, so that one who died holds nobody up.

Its limits: it needs listings that show what was written before, which AWS and the servers we know give; and an
owner that is held up for minutes between its last look at the clock and its write may write beside the next one.
An owner that notices in time that it was held up writes nothing.
"""

from __future__ import annotations

import random
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from evenshard.adapters.s3_client import S3FailedError, at
from evenshard.core.s3_failure import Kind, S3Failure
from evenshard.core.s3_place import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from evenshard.adapters.s3_client import S3Client

LIFE_SECONDS: Final = 300.0
"""A ticket that is older counts no more."""

SAFE_SECONDS: Final = 120.0
"""An owner that has held it for so long writes nothing more: its write may take a while, too."""

WAIT_SECONDS: Final = 0.05
MAX_WAIT_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 2 * LIFE_SECONDS
"""Owners need well under a second each."""


class S3Lock:
    """Lets one writer at a time at something.

    Args:
        client: of the server.
        bucket: where tickets are written.
        prefix: what their keys begin with, and a slash.
        owner: who takes it, for people who look into a ticket.
        sleep: waits between attempts.
    """

    def __init__(
        self, client: S3Client, bucket: str, prefix: str, *, owner: str, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._client, self._bucket, self._prefix, self._owner, self._sleep = client, bucket, prefix, owner, sleep

    @contextmanager
    def held(self) -> Iterator[Callable[[], None]]:
        """Hold the lock while the context lasts; gives what is to be called right before a write.

        Raises:
            S3FailedError: it was not to be had, or was held for too long to write still.
        """
        ticket = Place(bucket=self._bucket, key=f"{self._prefix}{uuid4().hex}")
        began = time.monotonic()
        try:
            since = self._take(ticket, until=began + PATIENCE_SECONDS)

            def check() -> None:
                if time.monotonic() - since > SAFE_SECONDS:
                    told = f"the lock was held for more than {SAFE_SECONDS:.0f} s; nothing was written"
                    raise S3FailedError(S3Failure(kind=Kind.MAY_PASS, told=told), in_doubt=False)

            yield check
        finally:
            with suppress(S3FailedError):  # it expires
                self._withdraw(ticket)

    def _take(self, ticket: Place, *, until: float) -> float:
        """Have the only ticket; gives the time before it was written."""
        wait = WAIT_SECONDS
        while time.monotonic() < until:
            since = time.monotonic()
            text = f"evenshard {self._owner}, for {LIFE_SECONDS:.0f} s\n".encode()
            self._client.ask("put_object", **at(ticket), Body=text)
            while True:
                alive = self._alive(ticket)
                if alive == [ticket.key] and time.monotonic() - since < SAFE_SECONDS:
                    return since
                if not alive or alive[0] != ticket.key or time.monotonic() > min(until, since + SAFE_SECONDS):
                    break
                self._sleep(WAIT_SECONDS)  # the earliest stays, until the others have withdrawn
            self._withdraw(ticket)
            self._sleep(wait * (0.5 + random.random()))  # noqa: S311 - spreads those that wait
            wait = min(2 * wait, MAX_WAIT_SECONDS)
        told = f"other writers hold the lock below {self._prefix}"
        raise S3FailedError(S3Failure(kind=Kind.MAY_PASS, told=told), in_doubt=False)

    def _alive(self, ticket: Place) -> list[str]:
        """Give the keys of tickets that count, the earliest first; the server's clock is that of our own ticket."""
        found = [(each["LastModified"], each["Key"]) for each in self._client.list(self._bucket, self._prefix)]
        now = next((written for written, key in found if key == ticket.key), None)
        if now is None:  # somebody swept it
            return []
        return [key for written, key in sorted(found) if (now - written).total_seconds() < LIFE_SECONDS]

    def _withdraw(self, ticket: Place) -> None:
        self._client.ask("delete_object", **at(ticket))
