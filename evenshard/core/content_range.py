"""The Content-Range field of HTTP answers. Source: RFC 9110, 14.4."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.IGNORECASE | re.ASCII)
_LENGTH = re.compile(r"bytes \*/(\d{1,18})", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentRange:
    """The bytes [start, stop) of a file of `total` bytes."""

    start: int
    stop: int
    total: int


def range_in(text: str | None) -> ContentRange | None:
    """Read which part of a file an answer holds; None where it does not say so, or it cannot be."""
    found = _RANGE.fullmatch((text or "").strip())
    if found is None:
        return None
    start, last, total = map(int, found.groups())
    return ContentRange(start=start, stop=last + 1, total=total) if start <= last < total else None


def length_in(text: str | None) -> int | None:
    """Read how long a file is, from an answer that there is no such range in it."""
    found = _LENGTH.fullmatch((text or "").strip())
    return int(found[1]) if found else None
