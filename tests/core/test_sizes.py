"""Sizes as people write them."""

from __future__ import annotations

import pytest

from evenshard.core.errors import OptionError
from evenshard.core.sizes import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("64MB", 64_000_000),
        ("64 mb", 64_000_000),
        ("64MiB", 67_108_864),
        ("1.5kB", 1500),
        ("4096", 4096),
        ("7B", 7),
        ("1GiB", 2**30),
    ],
)
def test_size_is_read_when_written_with_a_unit(text: str, expected: int) -> None:
    """Decimal and binary units, in any letter case."""
    assert expected == parse_bytes(text, option="chunk_bytes")


@pytest.mark.parametrize(
    "text", ["64XB", "", "MB", "-1MB", "0", "0.1B", "1e3MB", "64 M B", "٣MB", "9" * 400, "1" + "0" * 30 + "TB"]
)
def test_size_is_refused_when_it_is_none(text: str) -> None:
    """The option is named, and an example given."""
    with pytest.raises(OptionError, match=r"chunk_bytes: .*such as 64MB"):
        parse_bytes(text, option="chunk_bytes")


@pytest.mark.parametrize(
    ("num_bytes", "expected"), [(0, "0 B"), (999, "999 B"), (64_000_000, "64.0 MB"), (2 * 10**12, "2.0 TB")]
)
def test_size_is_short_when_written(num_bytes: int, expected: str) -> None:
    """Three digits and a unit."""
    assert expected == format_bytes(num_bytes)
