"""What a tar says of its members: blocks of 512 bytes, some of which only add to the next.

Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Header Block"; GNU tar manual, "Basic Tar Format".
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple
from zlib import adler32

from evenshard.core.errors import DamagedArchiveError
from evenshard.core.outcome import Reason

BLOCK_BYTES: Final = 512
MAX_EXTENSION_BYTES: Final = 2**20
"""Of a long name, or of the extended attributes of one member; Linux allows 64 kB of them per file."""
MAX_END_BYTES: Final = 2**16
"""Of zeros in a row where headers stand. Two blocks end a tar, and padding to 10,240 bytes is usual; a longer run
is what a download leaves that reserved its space and was not finished."""

_SIZE, _CHECKSUM, _MAGIC, _PREFIX = slice(124, 136), slice(148, 156), slice(257, 263), slice(345, 500)
_TYPE, _SPARSE_GOES_ON = 156, 482
_MAX_DIGITS: Final = 30
"""Of a number in an extended header; Python would not even convert more than some thousands."""
_BLANK_CHECKSUM: Final = 8 * ord(" ")


class Kind(Enum):
    """What stands behind a header."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    DEVICE = "device"
    SPARSE = "file with holes"
    OTHER = "entry of an unknown kind"
    LONG_NAME = "name of the next member"
    LONG_LINK = "link target of the next member"
    PAX = "extended header of the next member"
    PAX_GLOBAL = "extended header of all members"


_KINDS: Final = {
    **dict.fromkeys(b"0\x007", Kind.FILE),  # 7 is "contiguous", and a file to all but real-time systems
    **dict.fromkeys(b"12", Kind.LINK),
    **dict.fromkeys(b"346", Kind.DEVICE),
    **dict.fromkeys(b"xX", Kind.PAX),
    ord("5"): Kind.FOLDER,
    ord("S"): Kind.SPARSE,
    ord("L"): Kind.LONG_NAME,
    ord("K"): Kind.LONG_LINK,
    ord("g"): Kind.PAX_GLOBAL,
}
_WITHOUT_DATA: Final = (Kind.FOLDER, Kind.LINK, Kind.DEVICE)
"""Whatever size their headers give."""


class Header(NamedTuple):
    """One member, or an extension of the next one. A tuple, since there is one for each document.

    Args:
        name: as it stands there; a label, which is never looked for on disk.
        kind: what it is.
        num_bytes: length of its data as stored.
        goes_on: whether blocks with a map of holes stand between header and data.
    """

    name: str
    kind: Kind
    num_bytes: int
    goes_on: bool = False


def parse_header(block: bytes) -> Header:
    """Read one header.

    Args:
        block: 512 bytes, not all of them zero.

    Raises:
        DamagedArchiveError: it is none, or was damaged.
    """
    checksum = block[_CHECKSUM]
    if not _adds_up(block, checksum):
        raise _damage("it has no valid header")
    name = _text(block[:100])
    kind = _KINDS.get(block[_TYPE], Kind.OTHER)
    if block[_MAGIC] == b"ustar\0" and block[345]:
        name = f"{_text(block[_PREFIX])}/{name}"
    if block[_TYPE] == 0 and name.endswith("/"):  # how tars older than POSIX have folders
        kind = Kind.FOLDER
    num_bytes = 0 if kind in _WITHOUT_DATA else _number(block[_SIZE])
    return Header(name, kind, num_bytes, kind is Kind.SPARSE and block[_SPARSE_GOES_ON] != 0)


def padded(num_bytes: int) -> int:
    """Give the room that so many bytes take: whole blocks."""
    return -(-num_bytes // BLOCK_BYTES) * BLOCK_BYTES


def long_name(data: bytes) -> str:
    """Read the data of a `LONG_NAME`."""
    return _text(data)


class Pax(NamedTuple):
    """What an extended header changes of the next member.

    Args:
        name: its name, or None where that is not changed.
        num_bytes: length of its data as stored, or None likewise.
        has_holes: whether it is stored without its holes.
    """

    name: str | None = None
    num_bytes: int | None = None
    has_holes: bool = False


def parse_pax(data: bytes) -> Pax:
    """Read the data of a `PAX`: records of length, blank, key, equals sign, value, line feed.

    Raises:
        DamagedArchiveError: a record is of another length than it says, or has no key.
    """
    values: dict[bytes, bytes] = {}
    at = 0
    while at < len(data) and data[at]:
        digits, _, _ = data[at : at + _MAX_DIGITS].partition(b" ")
        start, end = at + len(digits) + 1, at + _decimal(digits)
        key, equals, value = data[start : max(start, end - 1)].partition(b"=")
        if not (key and equals and end <= len(data) and data[end - 1] == ord("\n")):
            raise _damage("an extended header is damaged")
        values[key] = value
        at = end
    name = values.get(b"GNU.sparse.name", values.get(b"path"))
    return Pax(
        name=None if name is None else _text(name),
        num_bytes=_decimal(values[b"size"]) if b"size" in values else None,
        has_holes=any(key.startswith(b"GNU.sparse.") for key in values),
    )


def _adds_up(block: bytes, checksum: bytes) -> bool:
    """Compare the sum of all bytes, the field itself taken as blanks; old Sun tars added up signed ones."""
    digits = checksum.split(b"\0", 1)[0].strip(b" ")
    if not digits.isdigit():
        return False
    missing = _octal(digits) - _BLANK_CHECKSUM + sum(checksum)
    if block.isascii():
        # The low half of Adler-32 is 1 and that sum modulo 65,521, which 512 times 127 stays below: for a tenth of
        # the time.
        return 1 + missing == adler32(block) & 0xFFFF
    high = sum(byte > 127 for byte in block) - sum(byte > 127 for byte in checksum)
    return missing in (sum(block), sum(block) - 256 * high)


def _number(field: bytes) -> int:
    """Read a size: octal digits, or where they do not suffice, the number itself behind a mark."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:])
    digits = field.split(b"\0", 1)[0].strip(b" ")
    if digits and not digits.isdigit():
        raise _damage("a header gives no valid size")
    return _octal(digits) if digits else 0


def _octal(digits: bytes) -> int:
    try:
        return int(digits, 8)
    except ValueError:
        raise _damage("a header has a number that is not octal") from None


def _decimal(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) >= _MAX_DIGITS:
        raise _damage("an extended header is damaged")
    return int(digits)


def _text(field: bytes) -> str:
    """Decode a name; a byte that is not UTF-8 stays readable, as its number."""
    return field.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")


def _damage(problem: str) -> DamagedArchiveError:
    return DamagedArchiveError(Reason.BROKEN_ARCHIVE, problem)
