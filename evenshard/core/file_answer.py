"""What an HTTP answer holds of a file that is read by byte ranges.

Source: RFC 9110, 14 (ranges) and 15.3.7 (206), 15.5.17 (416).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from evenshard.core.answer import Decoder, declared_bytes, decoder_for, status_failure
from evenshard.core.content_range import ContentRange, length_in, range_in
from evenshard.core.outcome import Failure, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

END_BYTES: Final = 65_536
"""What is asked for first: most footers lie in it."""


@dataclass(slots=True, kw_only=True)
class Wanted:
    """What is to come yet: the bytes [start, stop), or the file's end while it is not known how long the file is.

    Args:
        start: where it begins; None is the file's last `END_BYTES`.
        stop: where it ends.
        num_came: bytes that came since this was last set to 0.
    """

    start: int | None = None
    stop: int | None = None
    num_came: int = 0

    @property
    def is_done(self) -> bool:
        """Say whether nothing is to come."""
        return self.start is not None and self.start == self.stop

    @property
    def field(self) -> str:
        """Write it as a Range field."""
        if self.start is None or self.stop is None:
            return f"bytes=-{END_BYTES}"
        return f"bytes={self.start}-{self.stop - 1}"

    def fits(self, part: ContentRange) -> bool:
        """Say whether a part begins where it should, and goes no further than it should; it may end early."""
        if self.start is None or self.stop is None:
            return (part.start, part.stop) == (max(0, part.total - END_BYTES), part.total)
        return part.start == self.start and part.stop <= self.stop

    def take(self, num_bytes: int, position: int, body: Body) -> None:
        """Note what has come, up to a position. Of a packed body no part can be asked for, so it stays wanted."""
        self.num_came += num_bytes
        if body.stop is not None:
            self.stop = body.stop if self.stop is None else self.stop
            self.start = min(position, self.stop)

    def end(self) -> None:
        """Note that everything has come."""
        self.start = self.stop = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What a body holds: the bytes [start, stop) of a file.

    Args:
        start: position in the file of its first byte.
        stop: position after its last byte; None where that shows only when it has come.
        total: length of the file; None likewise.
        decoder: takes its content coding off.
    """

    start: int
    stop: int | None
    total: int | None
    decoder: Decoder


class Again(Enum):
    """The same is to be asked once more, in another way."""

    WITHOUT_RANGE = "the part is not the one that was asked for, or packed: the whole file is to be asked for"
    WITHOUT_CONDITION = "the server says that the file has changed; it may compare by other rules than it should"


def body_in(
    status: int, headers: Mapping[str, str], wanted: Wanted, *, gives_ranges: bool, num_bytes: int | None
) -> Body | Again | Failure:
    """Say what the answer to a request for a part of a file holds, or what to do about it.

    Args:
        status: of the answer, no redirect.
        headers: of the answer, looked up in any letter case.
        wanted: what is to come.
        gives_ranges: whether a range was asked for.
        num_bytes: length of the file, where it is known.
    """
    if status in {412, 416}:
        length = length_in(headers.get("content-range"))
        return Again.WITHOUT_CONDITION if status == 412 else _unsatisfied(length, num_bytes, gives_ranges=gives_ranges)
    if status not in {200, 203, 206}:
        refused = status_failure(status, retry_after_seconds=None)
        return refused or Failure(reason=Reason.BAD_ANSWER, detail=f"HTTP {status}")
    coding = headers.get("content-encoding", "").strip().lower()
    decoder, is_packed = decoder_for(coding), coding not in {"", "identity"}
    if isinstance(decoder, Failure):
        return decoder
    if status != 206:
        length = None if is_packed else declared_bytes(headers)
        return Body(start=0, stop=length, total=length, decoder=decoder)
    part = range_in(headers.get("content-range"))
    if part is not None and gives_ranges and not is_packed and wanted.fits(part):
        return Body(start=part.start, stop=part.stop, total=part.total, decoder=decoder)
    return _as_a_whole("a part of the file that was not asked for", gives_ranges=gives_ranges)


def _unsatisfied(length: int | None, num_bytes: int | None, *, gives_ranges: bool) -> Body | Again | Failure:
    """There is no such range: the file is empty, or has another length now, or the server cannot count from the end."""
    decoder = decoder_for(None)
    if length is not None and not isinstance(decoder, Failure) and (length == 0 or num_bytes not in {None, length}):
        return Body(start=0, stop=0, total=length, decoder=decoder)
    return _as_a_whole("HTTP 416", gives_ranges=gives_ranges)


def _as_a_whole(told: str, *, gives_ranges: bool) -> Again | Failure:
    return Again.WITHOUT_RANGE if gives_ranges else Failure(reason=Reason.BAD_ANSWER, detail=told)
