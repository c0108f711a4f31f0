"""What became of each row: an outcome, with a reason a person can act on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable


class Status(StrEnum):
    """Each row ends as exactly one of these."""

    STORED = "stored"
    FILTERED = "filtered"
    FAILED = "failed"


class Reason(StrEnum):
    """Why a row was not stored."""

    NO_LINK = "no-link"
    BAD_LINK = "bad-link"
    BAD_SCHEME = "bad-scheme"
    ADDRESS_REFUSED = "address-refused"
    NO_SUCH_HOST = "no-such-host"
    NAME_NOT_RESOLVED = "name-not-resolved"
    CONNECT_FAILED = "connect-failed"
    TLS_FAILED = "tls-failed"
    TOO_SLOW = "too-slow"
    TOO_LARGE = "too-large"
    TOO_MANY_REDIRECTS = "too-many-redirects"
    BAD_REDIRECT = "bad-redirect"
    CUT_SHORT = "cut-short"
    BAD_ANSWER = "bad-answer"
    HTTP_STATUS = "http-status"
    HTTP_RATE_LIMITED = "http-rate-limited"
    HTTP_SERVER_ERROR = "http-server-error"
    EMPTY_BODY = "empty-body"
    OPTED_OUT = "opted-out"
    NOT_A_PICTURE = "not-a-picture"
    UNSUPPORTED_FORMAT = "unsupported-format"
    BROKEN_PICTURE = "broken-picture"
    TOO_MANY_PIXELS = "too-many-pixels"
    TOO_SMALL = "too-small"
    TOO_OBLONG = "too-oblong"
    SAMPLE_TOO_LARGE = "sample-too-large"
    VALUE_OUT_OF_RANGE = "value-out-of-range"
    BAD_TEXT = "bad-text"
    UNREADABLE_ROWS = "unreadable-rows"
    NOT_YIELDED = "not-yielded"
    NOT_AN_ARCHIVE = "not-an-archive"
    BROKEN_ARCHIVE = "broken-archive"
    ARCHIVE_TOO_LARGE = "archive-too-large"
    DOCUMENT_TOO_LARGE = "document-too-large"
    UNSUPPORTED_ENTRY = "unsupported-entry"
    NOT_UTF_8 = "not-utf-8"
    EMPTY_TEXT = "empty-text"


HINTS: Final[Mapping[Reason, str]] = {
    Reason.NO_LINK: "the cell is null or blank",
    Reason.BAD_LINK: "the link cannot be parsed",
    Reason.BAD_SCHEME: "only http and https are fetched",
    Reason.ADDRESS_REFUSED: "the host is no public address; --allow-host opens one",
    Reason.NO_SUCH_HOST: "there is no host of that name",
    Reason.NAME_NOT_RESOLVED: "the resolver gave no answer for the name; if there are many, look at the resolver",
    Reason.CONNECT_FAILED: "nothing answered at the host and port",
    Reason.TLS_FAILED: "the certificate or the handshake was refused",
    Reason.TOO_SLOW: "the whole answer did not come within --timeout",
    Reason.TOO_LARGE: "the body passed the byte limit",
    Reason.TOO_MANY_REDIRECTS: "the chain of redirects passed the limit",
    Reason.BAD_REDIRECT: "a redirect led nowhere, or where nothing is fetched from",
    Reason.CUT_SHORT: "the connection closed before the whole body came",
    Reason.BAD_ANSWER: "the answer breaks HTTP, or its content coding is damaged",
    Reason.HTTP_STATUS: "the server said no; see the status",
    Reason.HTTP_RATE_LIMITED: "the server asks for fewer requests; lower --concurrency",
    Reason.HTTP_SERVER_ERROR: "the server is in trouble; try these rows again later",
    Reason.EMPTY_BODY: "the answer had no byte",
    Reason.OPTED_OUT: "the server's X-Robots-Tag says that the body is not to be used so",
    Reason.NOT_A_PICTURE: "the body is something else, such as a web page",
    Reason.UNSUPPORTED_FORMAT: "a picture format that this build of Pillow does not read",
    Reason.BROKEN_PICTURE: "the picture is cut or damaged",
    Reason.TOO_MANY_PIXELS: "the header declares more pixels than the limit, the memory or the output format allows",
    Reason.TOO_SMALL: "the picture is smaller than asked for",
    Reason.TOO_OBLONG: "the picture's long side is too many times its short side",
    Reason.SAMPLE_TOO_LARGE: "one sample passes 4 GiB",
    Reason.VALUE_OUT_OF_RANGE: "a whole number does not fit its field: beyond 64 bits, or not exact as a float",
    Reason.BAD_TEXT: "a value of a text column is not UTF-8",
    Reason.UNREADABLE_ROWS: "the part of the file that holds the row is damaged",
    Reason.NOT_YIELDED: "the transform left the row out",
    Reason.NOT_AN_ARCHIVE: "the member holds no tar: neither bare, nor packed with xz or gzip",
    Reason.BROKEN_ARCHIVE: "the archive or the member is cut or damaged; of a broken member no document counts",
    Reason.ARCHIVE_TOO_LARGE: "unpacking the member passed the byte or memory limit",
    Reason.DOCUMENT_TOO_LARGE: "the document passes the byte limit",
    Reason.UNSUPPORTED_ENTRY: "the document is stored with holes, or in pieces over several archives",
    Reason.NOT_UTF_8: "the text is not UTF-8",
    Reason.EMPTY_TEXT: "the document holds nothing but white space",
}
"""What each reason means, for reports."""

FILTERS: Final = frozenset(
    {Reason.OPTED_OUT, Reason.TOO_SMALL, Reason.TOO_OBLONG, Reason.NOT_YIELDED, Reason.EMPTY_TEXT}
)
"""Reasons of rows that were left out on purpose; all others are failures."""

MAY_PASS: Final = frozenset(
    {
        Reason.NAME_NOT_RESOLVED,
        Reason.CONNECT_FAILED,
        Reason.TOO_SLOW,
        Reason.CUT_SHORT,
        Reason.HTTP_RATE_LIMITED,
        Reason.HTTP_SERVER_ERROR,
    }
)
"""Failures that may be gone at another attempt. Whether to try again depends on nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a row gives no sample.

    Args:
        reason: the kind, counted in reports.
        detail: what was seen, one line.
        http_status: the last status, where one was received.
        retry_after_seconds: how long the server asked to wait, where it did.
        url: last address that was asked, where it is not the row's own.
        original_width, original_height: size of a picture whose header was read, upright, in pixels.
        original_format: its format by content.
    """

    reason: Reason
    detail: str = ""
    http_status: int | None = None
    retry_after_seconds: float | None = None
    url: str | None = None
    original_width: int | None = None
    original_height: int | None = None
    original_format: str | None = None

    @property
    def may_pass(self) -> bool:
        """Say whether another attempt makes sense."""
        return self.reason in MAY_PASS

    @property
    def status(self) -> Status:
        """Say whether the row failed, or was left out on purpose."""
        return Status.FILTERED if self.reason in FILTERS else Status.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one row.

    Args:
        source: file that the row stands in, or None where a transform did not say which row it was.
        row: row number in that file, from 0, or None likewise.
        status: stored, filtered or failed.
        reason: why not, if not stored.
        detail: what was seen.
        url: link as the table has it.
        http_status: last HTTP status.
        num_bytes: length of the body that was fetched.
        sha256: hash of that body, hex.
        width, height: size of the stored picture, in pixels.
        original_width, original_height: size before, upright.
        original_format: format by content, such as JPEG.
        chunk: number of the chunk inside the slice, from 0.
        position: number of the sample inside the chunk, from 0.
        member, document: names inside an archive; `row` is the number of the member there.
    """

    source: str | None
    row: int | None
    status: Status
    reason: Reason | None = None
    detail: str = ""
    url: str | None = None
    http_status: int | None = None
    num_bytes: int | None = None
    sha256: str | None = None
    width: int | None = None
    height: int | None = None
    original_width: int | None = None
    original_height: int | None = None
    original_format: str | None = None
    chunk: int | None = None
    position: int | None = None
    member: str | None = None
    document: str | None = None

    def __post_init__(self) -> None:
        """A stored row has no reason, any other has one."""
        if (self.status is Status.STORED) != (self.reason is None):
            raise ValueError(f"status {self.status} and reason {self.reason} do not go together")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Rows by what became of them. `planned` is what they must add up to.

    Args:
        planned: rows that were planned.
        stored: rows that gave a sample.
        filtered: rows left out on purpose, by reason.
        failed: rows that gave no sample, by reason.
    """

    planned: int = 0
    stored: int = 0
    filtered: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)

    @property
    def num_filtered(self) -> int:
        """All filtered rows."""
        return sum(self.filtered.values())

    @property
    def num_failed(self) -> int:
        """All failed rows."""
        return sum(self.failed.values())

    @property
    def adds_up(self) -> bool:
        """Say whether every planned row has exactly one outcome."""
        return self.planned == self.stored + self.num_filtered + self.num_failed

    def without_failed(self, failed: Mapping[str, int]) -> Counts:
        """Take out rows that failed and were planned once more, by reason."""
        left = Counter(self.failed)
        left.subtract(failed)
        return replace(self, planned=self.planned - sum(failed.values()), failed=_sorted(+left))

    @classmethod
    def total(cls, parts: Iterable[Counts]) -> Self:
        """Add up the counts of several slices."""
        planned = stored = 0
        filtered: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for part in parts:
            planned += part.planned
            stored += part.stored
            filtered.update(part.filtered)
            failed.update(part.failed)
        return cls(planned=planned, stored=stored, filtered=_sorted(filtered), failed=_sorted(failed))

    @classmethod
    def of(cls, outcomes: Iterable[Outcome], *, planned: int) -> Self:
        """Count the outcomes of a slice."""
        stored = 0
        filtered: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for outcome in outcomes:
            if outcome.reason is None:
                stored += 1
            else:
                (filtered if outcome.status is Status.FILTERED else failed)[outcome.reason.value] += 1
        return cls(planned=planned, stored=stored, filtered=_sorted(filtered), failed=_sorted(failed))


def _sorted(counter: Counter[str]) -> dict[str, int]:
    return {reason: counter[reason] for reason in sorted(counter)}
