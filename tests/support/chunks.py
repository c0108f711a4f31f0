"""Chunks as bytes, as tests look at them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from evenshard.adapters.litdata import SampleDecoder, read_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from evenshard.adapters.litdata import Value
    from evenshard.core.recipe import Kind


def read_samples(data: bytes, kinds: Sequence[Kind]) -> Iterator[list[Value]]:
    """Give the samples of a whole chunk, in order, as lists of field values."""
    decode = SampleDecoder(kinds)
    return (decode(data[start:stop]) for start, stop in pairwise(read_offsets(data, num_bytes=len(data))))
