"""Glob patterns over keys, as they are over paths of a file system: `*` stays in a folder, `**` crosses folders."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAGIC: Final = re.compile(r"[*?\[]")


def has_magic(text: str) -> bool:
    """Say whether a text is a pattern."""
    return _MAGIC.search(text) is not None


def fixed_part(pattern: str) -> str:
    """Give the folder that a pattern names before its first wildcard, with a slash at its end unless it is empty."""
    found = _MAGIC.search(pattern)
    return pattern[: pattern.rfind("/", 0, found.start()) + 1] if found else pattern


def num_matched(pattern: Sequence[str], parts: Sequence[str]) -> int:
    """Say how many parts of a key a pattern takes: all if it means the key, fewer if it means a folder that it is in.

    Args:
        pattern: parts of a pattern, without wildcards that cross folders but for `**`.
        parts: folders of a key, and its name.

    Returns:
        The most parts that it takes; 0 if it takes none.
    """
    reached = {0}
    for position, part in enumerate(pattern):
        if part == "**":
            last = position == len(pattern) - 1
            reached = {end for start in reached for end in range(start, len(parts) + 1) if not (last and end == 0)}
        else:
            matches = _compiled(part).fullmatch
            reached = {start + 1 for start in reached if start < len(parts) and matches(parts[start])}
    return max(reached, default=0)


@lru_cache(maxsize=256)
def _compiled(part: str) -> re.Pattern[str]:
    return re.compile(translate(part))
