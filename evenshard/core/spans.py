"""Spans of time as people write them."""

from __future__ import annotations

import re
from typing import Final

from evenshard.core.errors import OptionError

SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SPAN: Final = re.compile(r"(\d{1,9})([smhd])", re.ASCII)


def parse_span(text: str, *, option: str) -> float:
    """Read `90s`, `15m`, `12h` or `7d`; gives seconds.

    Raises:
        OptionError: it is something else.
    """
    found = _SPAN.fullmatch(text.strip().lower())
    if found is None:
        raise OptionError(option, f"{text!r} is no span of time; write 90s, 15m, 12h or 7d")
    return float(int(found[1]) * SECONDS[found[2]])
