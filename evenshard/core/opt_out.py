"""Answers that ask not to be used: the X-Robots-Tag field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FIELD: Final = "x-robots-tag"
AGENT: Final = "evenshard"
OPT_OUTS: Final = frozenset({"noai", "noimageai", "noindex", "noimageindex", "none"})
"""Directives that rule out this use; `none` stands for noindex and nofollow."""

MAX_CHARS: Final = 4_096
"""What is read of all fields together; no honest server says more, and reading takes time from other rows."""

_WITH_VALUE: Final = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


def find_opt_out(values: Iterable[str]) -> str | None:
    """Give the first directive that says no to everybody, or to us by name.

    Args:
        values: of all X-Robots-Tag fields of an answer.

    Source: Google Search Central, "Robots meta tag, data-nosnippet, and X-Robots-Tag specifications":
    directives stand between commas; `name:` before one limits those that follow to the agent of that name.
    """
    for agent, directive in _directives(values):
        if agent in ("", "*", AGENT) and directive in OPT_OUTS:
            return directive
    return None


def _directives(values: Iterable[str]) -> Iterator[tuple[str, str]]:
    num_left = MAX_CHARS
    for value in values:
        agent, read = "", value[:num_left]
        num_left -= len(read)
        for part in read.lower().split(","):
            name, colon, rest = (text.strip() for text in part.partition(":"))
            if colon and name not in _WITH_VALUE:
                agent, name = name, rest
            yield agent, name
