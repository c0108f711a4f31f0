"""The lock of objects, on a server in memory whose clock a test sets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from evenshard.adapters import s3_lock
from evenshard.adapters.s3_client import S3FailedError
from evenshard.adapters.s3_lock import LIFE_SECONDS, S3Lock

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Tickets:
    """What a server holds, in place of a client of one."""

    def __init__(self) -> None:
        self.written: dict[str, datetime] = {}
        self.num_written = 0

    def ask(self, operation: str, **arguments: Any) -> None:  # noqa: ANN401 - as boto3 takes them
        """Write a ticket now, or remove one."""
        if operation == "put_object":
            self.written[arguments["Key"]] = NOW
            self.num_written += 1
        else:
            self.written.pop(arguments["Key"], None)

    def list(self, _bucket: str, prefix: str) -> list[dict[str, Any]]:
        """Give the tickets."""
        return [{"Key": key, "LastModified": at} for key, at in self.written.items() if key.startswith(prefix)]


def lock_on(tickets: Tickets, sleep: Callable[[float], None] = lambda _: None) -> S3Lock:
    """Make a lock on that server."""
    return S3Lock(tickets, "bucket", "locks/", owner="test", sleep=sleep)  # type: ignore[arg-type]


def test_ticket_is_gone_when_the_lock_was_held() -> None:
    """While it is held there is one ticket, and none afterwards, also after an error."""
    tickets = Tickets()

    def fail() -> None:
        with lock_on(tickets).held():
            assert 1 == len(tickets.written)
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert {} == tickets.written


def test_ticket_of_a_dead_owner_counts_no_more_when_it_is_old() -> None:
    """By the server's clock, whatever that of this machine says."""
    tickets = Tickets()
    tickets.written["locks/dead"] = NOW - timedelta(seconds=LIFE_SECONDS)
    with lock_on(tickets).held():
        assert 2 == len(tickets.written)


def test_later_ticket_is_withdrawn_when_another_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes later goes, and comes again until the other is done; or gives up in the end."""
    tickets = Tickets()
    tickets.written["locks/other"] = NOW - timedelta(seconds=10)
    seen: list[list[str]] = []

    def wait(_: float) -> None:
        seen.append(list(tickets.written))
        if len(seen) == 3:
            tickets.written.clear()

    with lock_on(tickets, wait).held():
        assert [["locks/other"]] * 3 == seen
    tickets.written["locks/other"] = NOW - timedelta(seconds=10)
    monkeypatch.setattr(s3_lock, "PATIENCE_SECONDS", 0.1)
    with pytest.raises(S3FailedError, match="other writers hold the lock below locks/"), lock_on(tickets).held():
        pytest.fail("it was had")
    assert ["locks/other"] == list(tickets.written)


def test_earlier_ticket_stays_until_later_ones_are_gone() -> None:
    """Of two that see each other the earlier one gets the lock, without coming again."""
    tickets = Tickets()
    tickets.written["locks/other"] = NOW + timedelta(seconds=1)

    def wait(_: float) -> None:
        assert 2 == len(tickets.written)
        del tickets.written["locks/other"]

    with lock_on(tickets, wait).held():
        assert 1 == tickets.num_written


def test_nothing_is_written_when_a_lock_was_held_for_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner that was held up notices before it writes."""
    with lock_on(Tickets()).held() as check:
        check()
        monkeypatch.setattr(s3_lock, "SAFE_SECONDS", -1.0)
        with pytest.raises(S3FailedError, match="nothing was written"):
            check()
