"""Uploads to S3 as values: how they are cut, and what the store must say of them afterwards."""

from __future__ import annotations

import base64
import hashlib
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PART_BYTES: Final = 16 * 2**20
"""Of one part of an upload; what is not longer is sent at once. S3 wants 5 MiB at least."""

MAX_PARTS: Final = 10_000
"""Source: S3 User Guide, multipart upload limits."""


def part_bytes_for(num_bytes: int, *, least: int = PART_BYTES) -> int:
    """Give the length of parts that are not too many."""
    return max(least, -(-num_bytes // MAX_PARTS))


def cut(parts: Iterable[bytes], *, part_bytes: int) -> Iterator[bytes]:
    """Cut joined bytes anew, into parts of one length but for the last; never more than one is held."""
    held = bytearray()
    for part in parts:
        rest = memoryview(part)
        while rest:
            taken = rest[: part_bytes - len(held)]
            held += taken
            rest = rest[len(taken) :]
            if len(held) == part_bytes:
                yield bytes(held)
                held.clear()
    if held:
        yield bytes(held)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What was sent, as a store may tell it back.

    Args:
        num_bytes: all of it.
        etag: what the store calls it, if it calls objects as AWS does; without quotes.
        crc32: of all bytes, as S3 writes it.
    """

    num_bytes: int
    etag: str
    crc32: str


def describe(parts: Sequence[bytes], *, part_md5s: Sequence[bytes] = ()) -> Sent:
    """Describe joined bytes that are sent at once, or in parts with these digests.

    Source: S3 User Guide, checking object integrity: the ETag of an upload in parts is the MD5 of the joined
    digests of the parts, a hyphen, and their number.
    """
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    etag = f"{md5_of(part_md5s).hex()}-{len(part_md5s)}" if part_md5s else md5_of(parts).hex()
    return Sent(num_bytes=sum(map(len, parts)), etag=etag, crc32=base64.b64encode(crc.to_bytes(4, "big")).decode())


def md5_of(parts: Iterable[bytes]) -> bytes:
    """Give the digest of joined bytes that S3 wants beside them. It finds accidents, and hides nothing."""
    digest = hashlib.md5(usedforsecurity=False)
    for part in parts:
        digest.update(part)
    return digest.digest()


def content_md5(digest: bytes) -> str:
    """Write a digest as the field Content-MD5 has it."""
    return base64.b64encode(digest).decode()
