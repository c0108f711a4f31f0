"""litdata's chunk layout, to the byte."""

from __future__ import annotations

import math
import struct
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenshard.adapters.litdata import (
    SampleDecoder,
    encode_leaf,
    encode_sample,
    group_samples,
    pack_chunk,
    table_bytes,
)
from evenshard.core.errors import ChunkFormatError
from evenshard.core.recipe import NONE_VALUES, Kind
from tests.support.chunks import read_samples

VALUES = {
    Kind.STR: st.text(st.characters(exclude_categories=["Cs"])),
    Kind.BYTES: st.binary(max_size=200),
    Kind.INT: st.integers(-(2**63), 2**63 - 1),
    Kind.FLOAT: st.floats(allow_nan=False),
    Kind.BOOL: st.booleans(),
}
KINDS = list(VALUES)
SAMPLE = st.tuples(*VALUES.values())


def encode(values: tuple[object, ...]) -> bytes:
    """Encode one sample with a field of each type."""
    return encode_sample([encode_leaf(kind, value) for kind, value in zip(KINDS, values, strict=True)])


@given(samples=st.lists(SAMPLE, max_size=20))
def test_samples_come_back_when_packed(samples: list[tuple[object, ...]]) -> None:
    """Any samples of any types come back equal and in order."""
    data = b"".join(pack_chunk([encode(sample) for sample in samples]))
    assert samples == [tuple(values) for values in read_samples(data, KINDS)]


@given(sizes=st.lists(st.integers(0, 30), max_size=40), chunk_bytes=st.integers(1, 60))
def test_chunks_obey_the_size_rule_when_samples_are_grouped(sizes: list[int], chunk_bytes: int) -> None:
    """Order is kept, nothing is lost, a group is full when the next sample would pass the limit."""
    samples = [bytes(size) for size in sizes]
    groups = list(group_samples(samples, chunk_bytes=chunk_bytes))
    assert samples == list(chain.from_iterable(groups))
    assert all(sum(map(len, group)) <= chunk_bytes or len(group) == 1 for group in groups)
    for group, following in pairwise(groups):
        assert sum(map(len, group)) + len(following[0]) > chunk_bytes


def test_chunk_is_the_frozen_bytes_when_packed() -> None:
    """Two samples of a text and a number, byte for byte as the format's readers expect them."""
    samples = [encode_sample([encode_leaf(Kind.STR, text), encode_leaf(Kind.INT, 7)]) for text in ("é", "")]
    expected = (
        struct.pack("<IIII", 2, 16, 34, 50)
        + struct.pack("<II", 2, 8)
        + "é".encode()
        + struct.pack("<q", 7)
        + struct.pack("<II", 0, 8)
        + struct.pack("<q", 7)
    )
    assert expected == b"".join(pack_chunk(samples))


@pytest.mark.parametrize("kind", Kind)
def test_none_has_its_stated_meaning_when_stored(kind: Kind) -> None:
    """A missing value is stored as `NONE_VALUES` says, for each type."""
    (value,) = SampleDecoder([kind])(encode_sample([encode_leaf(kind, None)]))
    stated = NONE_VALUES[kind]
    assert value == stated or (math.isnan(float(value)) and math.isnan(float(stated)))


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        (Kind.INT, 2**63, ValueError),
        (Kind.STR, b"bytes", TypeError),
        (Kind.STR, "\ud800", ValueError),
        (Kind.INT, "1", TypeError),
        (Kind.FLOAT, 10**400, ValueError),
        (Kind.BYTES, "text", TypeError),
        (Kind.BOOL, 1, TypeError),
    ],
)
def test_value_is_refused_when_of_another_type(kind: Kind, value: object, error: type[Exception]) -> None:
    """Nothing is guessed or cut to fit."""
    with pytest.raises(error):
        encode_leaf(kind, value)


@given(samples=st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=5), data=st.data())
def test_chunk_is_refused_when_a_bit_of_its_table_is_flipped(samples: list[bytes], data: st.DataObject) -> None:
    """No flipped bit of the header leaves a chunk that its reader takes: count, offsets and lengths must all agree."""
    whole = b"".join(pack_chunk([encode_sample([sample]) for sample in samples]))
    bit = data.draw(st.integers(0, 8 * table_bytes(len(samples)) - 1))
    damaged = bytearray(whole)
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ChunkFormatError):
        list(read_samples(bytes(damaged), [Kind.BYTES]))


@pytest.mark.parametrize("length", range(12))
def test_chunk_is_refused_when_cut_short(length: int) -> None:
    """No prefix of a chunk is a chunk."""
    data = b"".join(pack_chunk([b"abcdefg"]))
    with pytest.raises(ChunkFormatError):
        list(read_samples(data[:length], [Kind.BYTES]))


def test_sample_is_refused_when_its_fields_do_not_fill_it() -> None:
    """A sample with other fields than stated is an error, not another sample."""
    data = b"".join(pack_chunk([encode_sample([b"abc", b"de"])]))
    with pytest.raises(ChunkFormatError, match="do not fill"):
        list(read_samples(data, [Kind.BYTES]))
    with pytest.raises(ChunkFormatError, match="too short"):
        list(read_samples(b"".join(pack_chunk([b"ab"])), [Kind.BYTES]))
