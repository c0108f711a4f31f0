"""What follows from what S3 servers say."""

from __future__ import annotations

import pytest

from evenshard.core.s3_failure import (
    ATTEMPTS,
    FIRST_ATTEMPTS,
    MAX_WAIT_SECONDS,
    Kind,
    S3Failure,
    failure_in,
    should_retry,
    wait_seconds,
)


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("SlowDown", 503, Kind.MAY_PASS),
        ("503", 503, Kind.MAY_PASS),
        ("InternalError", 500, Kind.MAY_PASS),
        ("InternalError", 200, Kind.MAY_PASS),
        ("Whatever", 502, Kind.MAY_PASS),
        ("TooManyRequests", 429, Kind.MAY_PASS),
        ("ConditionalRequestConflict", 409, Kind.MAY_PASS),
        ("BadDigest", 400, Kind.MAY_PASS),
        ("PreconditionFailed", 412, Kind.TAKEN),
        ("412", 412, Kind.TAKEN),
        ("NoSuchKey", 404, Kind.MISSING),
        ("404", 404, Kind.MISSING),
        ("NoSuchUpload", 404, Kind.MISSING),
        ("InvalidRange", 416, Kind.NO_RANGE),
        ("NoSuchBucket", 404, Kind.REFUSED),
        ("ExpiredToken", 400, Kind.REFUSED),
        ("403", 403, Kind.REFUSED),
        ("NotImplemented", 501, Kind.REFUSED),
        ("EntityTooLarge", 400, Kind.REFUSED),
    ],
)
def test_answer_has_a_meaning(code: str, status: int, kind: Kind) -> None:
    """What may pass is asked again, what is missing or taken is an answer, and all else ends it."""
    assert kind is failure_in(code, status).kind


@pytest.mark.parametrize("kind", [Kind.UNREACHABLE, Kind.SILENT])
def test_server_is_asked_less_often_when_it_never_answered(kind: Kind) -> None:
    """A wrong address is told of after two attempts; one that answered before is waited for."""
    failure = S3Failure(kind=kind, told="x")
    first = [should_retry(failure, attempt=number, has_answered=False) for number in range(1, ATTEMPTS + 1)]
    later = [should_retry(failure, attempt=number, has_answered=True) for number in range(1, ATTEMPTS + 1)]
    assert (FIRST_ATTEMPTS - 1, ATTEMPTS - 1) == (sum(first), sum(later))


def test_waits_double_up_to_a_limit() -> None:
    """They sum up to less than a minute, with the most jitter that there is."""
    waits = [wait_seconds(attempt=number, jitter=0.5) for number in range(1, ATTEMPTS)]
    assert [0.2, 0.4, 0.8] == [round(wait, 9) for wait in waits[:3]]
    assert MAX_WAIT_SECONDS == waits[-1]
    assert 60 > sum(wait_seconds(attempt=number, jitter=0.999) for number in range(1, ATTEMPTS))
