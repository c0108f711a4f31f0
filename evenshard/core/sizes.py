"""Sizes as people write them: "64MB", "1.5 GiB", 4096."""

from __future__ import annotations

import re
from typing import Final

from evenshard.core.errors import OptionError

UNITS: Final = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)


def parse_bytes(text: str | int, *, option: str) -> int:
    """Read a size in bytes.

    Args:
        text: a number of bytes, or a number with a unit. MB is 10^6 and MiB 2^20, in any letter case.
        option: the option's name, for the error.

    Raises:
        OptionError: not a size, an unknown unit, or less than one byte.

    Source: decimal units as litdata reads "64MB" (64,000,000).
    """
    found = _SIZE.fullmatch(str(text))
    unit = UNITS.get(found.group(2).upper()) if found else None
    if found is None or unit is None:
        raise OptionError(option, f"{text!r} is not a size; write a number and a unit, such as 64MB or 64MiB")
    size = float(found.group(1)) * unit
    if not 1 <= size < 2**63:
        raise OptionError(option, f"{str(text)[:40]!r} is out of range; write a size such as 64MB")
    return int(size)


def format_bytes(num_bytes: int) -> str:
    """Write a size with three digits and a decimal unit: 64.0 MB."""
    value = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
