"""Uploads as values: how they are cut, and what a store must say of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenshard.core.upload import MAX_PARTS, cut, describe, md5_of, part_bytes_for


@given(st.lists(st.binary(max_size=20), max_size=10), st.integers(1, 17))
def test_bytes_are_the_same_when_cut_anew(parts: list[bytes], part_bytes: int) -> None:
    """Joined they are what came in; each part but the last has the length, and none is empty."""
    found = list(cut(parts, part_bytes=part_bytes))
    assert b"".join(parts) == b"".join(found)
    assert all(part_bytes == len(part) for part in found[:-1])
    assert all(0 < len(part) <= part_bytes for part in found)


@pytest.mark.parametrize("num_bytes", [1, 10**9, 5 * 2**40])
def test_parts_are_not_too_many(num_bytes: int) -> None:
    """The largest object that S3 takes has no more parts than it takes."""
    part_bytes = part_bytes_for(num_bytes)
    assert part_bytes >= 16 * 2**20
    assert -(-num_bytes // part_bytes) <= MAX_PARTS


def test_what_was_sent_is_described_as_stores_do() -> None:
    """MD5 and CRC32 of a known text; in parts, the digest of the parts' digests with their number."""
    sent = describe([b"1234", b"56789"])
    assert (9, "25f9e794323b453885f5181f1b624d0b", "y/Q5Jg==") == (sent.num_bytes, sent.etag, sent.crc32)
    parts = describe([b"1234", b"56789"], part_md5s=[md5_of([b"12345"]), md5_of([b"6789"])])
    assert (9, "324730582f20c3f18cbb66d63a6137d2-2", "y/Q5Jg==") == (parts.num_bytes, parts.etag, parts.crc32)
