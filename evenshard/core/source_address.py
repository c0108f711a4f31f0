"""Addresses of source files: told from paths, parted from logins, and written for people to read."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

SCHEMES: Final = ("http", "https")
"""What source files are read over."""

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE | re.ASCII)


def scheme_of(source: str) -> str | None:
    """Give the scheme of an address, in lower case; None for a path."""
    found = _SCHEME.match(source)
    return found[1].lower() if found else None


def part_login(address: str) -> tuple[str, str | None]:
    """Part an address from its `user:password`, which belongs into no plan, manifest or message."""
    start, _, rest = address.partition("://")
    place = re.split(r"[/?#]", rest, maxsplit=1)[0]
    login, sign, _ = place.rpartition("@")
    return (f"{start}://{rest[len(login) + 1 :]}", login) if sign else (address, None)


def origin_of(address: str) -> str:
    """Give scheme, host and port of an address: what a login holds for."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def shown(path: str) -> str:
    """Write a path as it is, and an address without its login and the values in its query, which can be signatures.

    In S3 a question mark is a part of a key.
    """
    if scheme_of(path) is None:
        return path
    address, login = part_login(path)
    if scheme_of(path) == "s3":
        return address.replace("://", "://***@", 1) if login else address
    start, _, rest = address.partition("://")
    before, sign, query = rest.partition("#")[0].partition("?")
    names = "&".join(f"{pair.partition('=')[0]}=..." if "=" in pair else "..." for pair in query.split("&"))
    return f"{start}://{'***@' if login else ''}{before}{sign}{names if sign else ''}"
