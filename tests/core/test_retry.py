"""Retry: what is asked again, and after how long, is a function of the failure alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenshard.core.outcome import MAY_PASS, Failure, Reason
from evenshard.core.retry import MAX_WAIT_SECONDS, final_failure, parse_retry_after, should_retry, wait_seconds

NOW = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the date of RFC 9110's examples


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        (" 120 ", 120.0),
        ("86400", 86_400.0),
        ("Sun, 06 Nov 1994 08:49:47 GMT", 10.0),
        ("Sunday, 06-Nov-94 08:49:47 GMT", 10.0),
        ("Sun Nov  6 08:49:47 1994", 10.0),
        ("Sun, 06 Nov 1994 08:49:27 GMT", 0.0),
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("\u0661", None),
        ("9" * 400, None),
        ("Sun, 99 Nov 1994 08:49:47 GMT", None),
    ],
)
def test_retry_after_is_read(text: str | None, seconds: float | None) -> None:
    """Seconds and all three kinds of HTTP date are understood, a date that has passed is no wait, nonsense is none."""
    assert seconds == parse_retry_after(text, now=NOW)


@given(st.text())
def test_any_retry_after_is_survived(text: str) -> None:
    """No text of a server raises or gives a wait below zero."""
    assert (parse_retry_after(text, now=NOW) or 0.0) >= 0.0


@pytest.mark.parametrize("reason", Reason)
def test_only_failures_that_may_pass_are_tried_again(reason: Reason) -> None:
    """The table of reasons alone says what may pass, and the last attempt is the last."""
    failure = Failure(reason=reason)

    assert (reason in MAY_PASS) == should_retry(failure, attempt=2, attempts=3)
    assert not should_retry(failure, attempt=3, attempts=3)


@pytest.mark.parametrize(("asked", "again"), [(None, True), (0.0, True), (30.0, True), (30.5, False)])
def test_server_that_asks_for_too_long_is_left_alone(asked: float | None, again: bool) -> None:
    """A wait beyond the cap is not shortened: the server is not asked again, and the failure says why."""
    failure = Failure(reason=Reason.HTTP_RATE_LIMITED, detail="HTTP 429", retry_after_seconds=asked)

    assert again == should_retry(failure, attempt=1, attempts=3)
    assert again == (final_failure(failure) == failure)
    assert ("the server asks to wait" in final_failure(failure).detail) != again


@pytest.mark.parametrize(
    ("attempt", "jitter", "seconds"),
    [(1, 0.0, 0.25), (1, 0.5, 0.5), (2, 0.5, 1.0), (3, 0.5, 2.0), (3, 0.0, 1.0), (7, 0.5, 30.0), (60, 0.0, 30.0)],
)
def test_back_off_doubles_up_to_the_cap(attempt: int, jitter: float, seconds: float) -> None:
    """Without a word from the server the wait is half a second, doubled at each attempt, spread around, capped."""
    assert seconds == wait_seconds(Failure(reason=Reason.TOO_SLOW), attempt=attempt, jitter=jitter)


@given(st.floats(0, 1e9), st.integers(1, 10), st.floats(0, 1, exclude_max=True))
def test_wait_is_what_the_server_asked_for(asked: float, attempt: int, jitter: float) -> None:
    """Where the server names a wait, it is that one, and never beyond the cap."""
    failure = Failure(reason=Reason.HTTP_SERVER_ERROR, retry_after_seconds=asked)

    assert min(asked, MAX_WAIT_SECONDS) == wait_seconds(failure, attempt=attempt, jitter=jitter)
