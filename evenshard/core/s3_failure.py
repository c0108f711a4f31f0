"""What S3 servers say when they do not do what they were asked, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

FIRST_WAIT_SECONDS: Final = 0.2
MAX_WAIT_SECONDS: Final = 8.0
ATTEMPTS: Final = 10
"""With waits that double, some 40 s altogether: a server that slows us down is given that long, then a slice fails."""

FIRST_ATTEMPTS: Final = 2
"""At what never answered this process, and cannot be connected to or says nothing: most likely a wrong address."""


class Kind(Enum):
    """What a failure means to whoever asked."""

    MAY_PASS = auto()
    """Another attempt may do."""
    UNREACHABLE = auto()
    """No connection came about."""
    SILENT = auto()
    """A connection came about, and no answer in time; what was asked may have been done."""
    MISSING = auto()
    """There is no such object, or no such upload."""
    TAKEN = auto()
    """A condition of the request does not hold."""
    NO_RANGE = auto()
    """The object ends before the range that was asked for."""
    REFUSED = auto()
    """It will not be done, however often it is asked: the bucket, the credentials, the request itself."""


NO_ANSWER: Final = frozenset({Kind.UNREACHABLE, Kind.SILENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Failure:
    """Why a request was not done.

    Args:
        kind: what it means.
        told: for people, without a full stop; holds no secret.
        code: the server's own word for it.
    """

    kind: Kind
    told: str
    code: str = ""

    @property
    def may_pass(self) -> bool:
        """Say whether to try again."""
        return self.kind in {Kind.MAY_PASS, *NO_ANSWER}

    @property
    def leaves_doubt(self) -> bool:
        """Say whether what was asked may have been done nevertheless."""
        return self.kind in {Kind.MAY_PASS, Kind.SILENT}


_CHECK: Final = "check the credentials, and that they belong to this endpoint"
_REFUSED: Final = {
    "NoSuchBucket": "there is no such bucket",
    "InvalidBucketName": "the server says that this is no bucket's name",
    "InvalidAccessKeyId": f"the access key is not known there; {_CHECK}",
    "SignatureDoesNotMatch": f"the secret key is wrong; {_CHECK}",
    "ExpiredToken": "the session token has expired; get new credentials, and run again",
    "ExpiredTokenException": "the session token has expired; get new credentials, and run again",
    "InvalidToken": f"the session token is not valid; {_CHECK}",
    "AccessDenied": "access is denied; the credentials lack a right to this bucket or prefix",
    "AllAccessDisabled": "all access to it is disabled",
    "RequestTimeTooSkewed": "the clocks of this machine and of the server differ too much",
    "PermanentRedirect": "the bucket is in another region, or the endpoint is another one; set AWS_DEFAULT_REGION",
    "AuthorizationHeaderMalformed": "the request was signed for another region; set AWS_DEFAULT_REGION",
    "IllegalLocationConstraintException": "the bucket is in another region; set AWS_DEFAULT_REGION",
    "403": "access is denied (HTTP 403); the credentials are wrong, or lack a right to it",
    "301": "the bucket is in another region, or the endpoint is another one; set AWS_DEFAULT_REGION",
}
_MISSING: Final = frozenset({"NoSuchKey", "NoSuchUpload", "404", "NotFound"})
_TAKEN: Final = frozenset({"PreconditionFailed", "412"})
_NO_RANGE: Final = frozenset({"InvalidRange", "416"})
_MAY_PASS: Final = frozenset(
    {
        "SlowDown",
        "RequestTimeout",
        "InternalError",
        "ServiceUnavailable",
        "Throttling",
        "ConditionalRequestConflict",  # two conditional writes at once: neither is decided
        "OperationAborted",
        "BadDigest",  # the body was damaged or cut on its way
        "IncompleteBody",
        "XAmzContentSHA256Mismatch",
    }
)


def failure_in(code: str, status: int) -> S3Failure:
    """Say what an answer means that is an error. The server's own sentence is not told: it may hold what was sent.

    Args:
        code: the server's word for it; the status, where an answer has no body.
        status: of HTTP.

    Source: S3 API Reference, Error responses.
    """
    if code in _REFUSED:
        return S3Failure(kind=Kind.REFUSED, told=_REFUSED[code], code=code)
    if code in _MISSING:
        return S3Failure(kind=Kind.MISSING, told="there is no such object", code=code)
    if code in _TAKEN:
        return S3Failure(kind=Kind.TAKEN, told="it is not what it was expected to be", code=code)
    if code in _NO_RANGE:
        return S3Failure(kind=Kind.NO_RANGE, told="it has no such range", code=code)
    told = f"the server said {code}" + (f" (HTTP {status})" if status and str(status) != code else "")
    may_pass = code in _MAY_PASS or status in {408, 429} or (status >= 500 and status != 501)
    return S3Failure(kind=Kind.MAY_PASS if may_pass else Kind.REFUSED, told=told, code=code)


def should_retry(failure: S3Failure, *, attempt: int, has_answered: bool) -> bool:
    """Say whether to ask again.

    Args:
        failure: of the last attempt.
        attempt: its number, from 1.
        has_answered: whether the server ever answered this process.
    """
    is_first_contact = failure.kind in NO_ANSWER and not has_answered
    return failure.may_pass and attempt < (FIRST_ATTEMPTS if is_first_contact else ATTEMPTS)


def wait_seconds(*, attempt: int, jitter: float) -> float:
    """Give the wait before the next attempt.

    Args:
        attempt: number of the last one, from 1.
        jitter: in [0, 1); spreads those that were slowed down together from half to one and a half times the wait.
    """
    return float(min(FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1), MAX_WAIT_SECONDS) * (0.5 + jitter))
