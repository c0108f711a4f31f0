"""Answers: what a status means, and content codings taken off in small pieces."""

from __future__ import annotations

import gzip
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenshard.core.answer import MAX_PIECE_BYTES, declared_bytes, decoder_for, status_failure
from evenshard.core.outcome import Failure, Reason


def packed(data: bytes, coding: str) -> bytes:
    """Compress: `gzip`, `deflate`, or `raw`, which is deflate without its wrapper."""
    packer = zlib.compressobj(6, zlib.DEFLATED, {"gzip": 31, "deflate": 15, "raw": -15}[coding])
    return packer.compress(data) + packer.flush()


def decoded(coded: bytes, content_encoding: str, cuts: list[int]) -> tuple[list[bytes], bool]:
    """Decode a body that comes in parts, and say whether it was complete."""
    decoder = decoder_for(content_encoding)
    assert not isinstance(decoder, Failure)
    places = [0, *sorted(cut % (len(coded) + 1) for cut in cuts), len(coded)]
    parts = [coded[start:stop] for start, stop in pairwise(places)]
    return [piece for part in parts for piece in decoder.pieces(part)], decoder.is_complete


BODIES = st.one_of(st.binary(max_size=300), st.integers(0, 200_000).map(lambda n: b"ab" * n))
CUTS = st.lists(st.integers(0, 10**6), max_size=6)


@given(BODIES, st.sampled_from(["gzip", "deflate", "raw"]), CUTS)
def test_coding_is_taken_off_wherever_the_body_is_cut(body: bytes, coding: str, cuts: list[int]) -> None:
    """However the wire cuts a body, it decodes to the same bytes, in pieces of bounded size."""
    pieces, is_complete = decoded(packed(body, coding), coding.replace("raw", "deflate"), cuts)

    assert (body, True) == (b"".join(pieces), is_complete)
    assert all(len(piece) <= MAX_PIECE_BYTES for piece in pieces)


@given(BODIES, st.sampled_from(["gzip", "deflate", "raw"]), st.integers(1, 20), CUTS)
def test_cut_coding_is_not_complete(body: bytes, coding: str, num_missing: int, cuts: list[int]) -> None:
    """A coded body that lacks its end is never taken for whole."""
    coded = packed(body, coding)
    _, is_complete = decoded(coded[:-num_missing], coding.replace("raw", "deflate"), cuts)

    assert not is_complete


@given(st.lists(BODIES, min_size=2, max_size=3), st.integers(0, 9), CUTS)
def test_gzip_in_several_parts_is_one_body(bodies: list[bytes], num_zeros: int, cuts: list[int]) -> None:
    """A gzip body may be several streams one after another, with zeros between and after them."""
    coded = b"".join(packed(body, "gzip") + bytes(num_zeros) for body in bodies)
    pieces, is_complete = decoded(coded, "gzip", cuts)

    assert (b"".join(bodies), True) == (b"".join(pieces), is_complete)


def test_bomb_unfolds_in_small_pieces() -> None:
    """One packet of a bomb gives no piece beyond the limit, so that whoever counts can stop in time."""
    decoder = decoder_for("gzip")
    assert not isinstance(decoder, Failure)
    pieces = decoder.pieces(packed(bytes(20_000_000), "gzip"))

    assert [MAX_PIECE_BYTES] * 100 == [len(next(pieces)) for _ in range(100)]


@pytest.mark.parametrize(
    ("content_encoding", "coded"),
    [
        ("gzip", b"\xff\xd8 a picture"),
        ("deflate", b"\xff\xd8 a picture"),
        ("gzip", gzip.compress(b"a")[:-8] + b"12345678"),
        ("gzip", gzip.compress(b"a") + b"rest"),
    ],
    ids=["plain-as-gzip", "plain-as-deflate", "wrong-sum", "something-after"],
)
def test_false_coding_is_an_error(content_encoding: str, coded: bytes) -> None:
    """A body that is not what the head says raises instead of giving something."""
    with pytest.raises(zlib.error):
        decoded(coded, content_encoding, [])


@pytest.mark.parametrize("content_encoding", [None, "", "identity", " Identity , "])
def test_no_coding_leaves_the_body_alone(content_encoding: str | None) -> None:
    """Without a coding, pieces are what came."""
    assert ([b"abc"], True) == decoded(b"abc", content_encoding or "", [])


@pytest.mark.parametrize("content_encoding", ["br", "zstd", "gzip, gzip", "utf-8"])
def test_unknown_coding_is_refused(content_encoding: str) -> None:
    """A coding that was not asked for and is not known is a named failure."""
    found = decoder_for(content_encoding)

    assert isinstance(found, Failure)
    assert (Reason.BAD_ANSWER, True) == (found.reason, content_encoding in found.detail)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (200, None),
        (203, None),
        (204, Reason.EMPTY_BODY),
        (205, Reason.EMPTY_BODY),
        (206, Reason.BAD_ANSWER),
        (101, Reason.HTTP_STATUS),
        (304, Reason.HTTP_STATUS),
        (403, Reason.HTTP_STATUS),
        (408, Reason.HTTP_SERVER_ERROR),
        (429, Reason.HTTP_RATE_LIMITED),
        (500, Reason.HTTP_SERVER_ERROR),
        (599, Reason.HTTP_SERVER_ERROR),
        (600, Reason.HTTP_STATUS),
    ],
)
def test_status_is_judged(status: int, reason: Reason | None) -> None:
    """Each status has one meaning, and the failure keeps it with the wait that was asked for."""
    found = status_failure(status, retry_after_seconds=None)

    assert reason == (found and found.reason)
    assert found is None or found.http_status == status


@pytest.mark.parametrize(
    ("headers", "num_bytes"),
    [
        ({}, None),
        ({"content-length": "0"}, 0),
        ({"content-length": " 12 "}, 12),
        ({"content-length": "-1"}, None),
        ({"content-length": "\u0661"}, None),
        ({"content-length": "12", "transfer-encoding": "chunked"}, None),
    ],
)
def test_declared_length_is_read(headers: dict[str, str], num_bytes: int | None) -> None:
    """The declared length counts where it is a number and no transfer coding overrides it."""
    assert num_bytes == declared_bytes(headers)
