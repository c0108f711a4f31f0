"""Whether to ask again after a failure, and how long to wait before."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from evenshard.core.outcome import Failure

FIRST_WAIT_SECONDS: Final = 0.5
MAX_WAIT_SECONDS: Final = 30.0
"""No row waits longer between two attempts; a server that asks for more is not asked again in this run."""

_SECONDS = re.compile(r"\d{1,12}", re.ASCII)


def parse_retry_after(text: str | None, *, now: float) -> float | None:
    """Read how long a server asks to wait.

    Args:
        text: value of the Retry-After field: seconds, or an HTTP date.
        now: seconds since the epoch.

    Returns:
        Seconds, 0 or more; None where nothing was asked or it cannot be understood.

    Source: RFC 9110, 10.2.3.
    """
    value = (text or "").strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        date = parsedate_to_datetime(value)
        moment = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max(moment.timestamp() - now, 0.0)
    except (ValueError, TypeError, IndexError, OverflowError):  # what that parser raises on nonsense
        return None


def should_retry(failure: Failure, *, attempt: int, attempts: int) -> bool:
    """Say whether to ask again.

    Args:
        failure: what became of the last attempt.
        attempt: its number, from 1.
        attempts: how many there may be.
    """
    return failure.may_pass and attempt < attempts and not asks_too_long(failure)


def wait_seconds(failure: Failure, *, attempt: int, jitter: float) -> float:
    """Give the wait before the next attempt: what the server asked for, else a back-off that doubles.

    Args:
        failure: what became of the last attempt.
        attempt: its number, from 1.
        jitter: in [0, 1); spreads rows that failed together from half to one and a half times the back-off.
    """
    if failure.retry_after_seconds is not None:
        return min(failure.retry_after_seconds, MAX_WAIT_SECONDS)
    return min(FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1) * (0.5 + jitter), MAX_WAIT_SECONDS)


def asks_too_long(failure: Failure) -> bool:
    """Say whether the server asked for a longer wait than any row gets."""
    return (failure.retry_after_seconds or 0.0) > MAX_WAIT_SECONDS


def final_failure(failure: Failure) -> Failure:
    """Give the failure as it is reported, which says so where the server asked for too long a wait."""
    if not asks_too_long(failure):
        return failure
    asked = f"the server asks to wait {failure.retry_after_seconds:.0f} s, more than the {MAX_WAIT_SECONDS:.0f} s given"
    return replace(failure, detail=f"{failure.detail}; {asked}" if failure.detail else asked)
