"""Links as tables hold them, turned into addresses that can be asked for, or into the reason why not.

One spelling comes out for one address, and nothing in it is left to the reading of a second parser:
what is checked is what is asked.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urljoin, urlsplit

import idna

from evenshard.core.outcome import Failure, Reason

if TYPE_CHECKING:
    from urllib.parse import SplitResult

DEFAULT_PORTS: Final = {"http": 80, "https": 443}
"""Schemes that are fetched, with the port that need not be written."""

MAX_LINK_CHARS: Final = 32_768
"""No common server takes a longer request line; the usual limit is 8,192."""

MAX_HOST_CHARS: Final = 1_024
"""A name has 253 at most; before it may stand a user and a password. Both are normalised at quadratic cost."""

_AUTHORITY = re.compile(r"[^:]*:[/\\]*([^/?#]*)")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE | re.ASCII)  # RFC 3986, 3.1
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_LONE_PERCENT = re.compile(r"%(?![0-9a-f]{2})", re.IGNORECASE | re.ASCII)
# Wider than RFC 1123: names with underscores, or hyphens at the ends, are in use on the web.
_HOST_NAME = re.compile(r"(?=.{1,254}\Z)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.ASCII)
_ENDS_IN_NUMBER = re.compile(r"(?:^|\.)(?:\d+|0x[0-9a-f]*)\.?\Z", re.ASCII)
_DIGITS = {
    8: re.compile(r"[0-7]{1,64}", re.ASCII),
    10: re.compile(r"[0-9]{1,64}", re.ASCII),
    16: re.compile(r"[0-9a-f]{1,64}", re.ASCII),
}
_BRACKETED = re.compile(
    r"\[([0-9a-f:.]+)\](?::\d*)?", re.IGNORECASE | re.ASCII
)  # no zone: it names this machine's cards
_SUB_DELIMITERS = "!$&'()*+,;="  # RFC 3986, 2.2
_USER_SAFE = _SUB_DELIMITERS + ":%"
_PATH_SAFE = _SUB_DELIMITERS + ":@/%"
_QUERY_SAFE = _PATH_SAFE + "?"


def normalise_link(text: str | None) -> str | Failure:
    """Give the address that a link stands for, in one spelling.

    White space around it goes; scheme and host become lower case and ASCII; the default port, dot
    segments and the fragment go; what an address may not hold is percent-encoded, once. Everything
    else stays as it was written, an HTML entity or an odd percent code too, since signed links are
    signed over their spelling.

    Args:
        text: a cell of the table, or the target of a redirect made absolute.
    """
    if len(text or "") > MAX_LINK_CHARS:  # before anything reads it: some of what follows is slower than linear
        return Failure(reason=Reason.BAD_LINK, detail=f"more than {MAX_LINK_CHARS} characters")
    link = (text or "").strip()
    scheme = _SCHEME.match(link)
    if not link:
        return Failure(reason=Reason.NO_LINK)
    if scheme is None:
        return Failure(reason=Reason.BAD_SCHEME, detail="the link has no scheme")
    if scheme[1].lower() not in DEFAULT_PORTS:
        return Failure(reason=Reason.BAD_SCHEME, detail=f"{scheme[1].lower()[:32]}: is not fetched")
    try:
        return _address(link)
    except ValueError as error:
        return Failure(reason=Reason.BAD_LINK, detail=str(error))


def join_link(address: str, location: str) -> str | Failure:
    """Give the address that a redirect leads to.

    Args:
        address: the one that answered with the redirect, normalised.
        location: what the answer said, absolute or relative.
    """
    target = location.strip()
    if _SCHEME.match(target):
        return normalise_link(target)  # urljoin would take "http:x" for a relative one
    try:
        return normalise_link(urljoin(address, target))
    except ValueError as error:
        return Failure(reason=Reason.BAD_LINK, detail=str(error))


def _address(link: str) -> str:
    if found := _UNPRINTABLE.search(link):
        raise ValueError(f"character U+{ord(found[0]):04X} at position {found.start()}")
    if len(_AUTHORITY.match(link)[1]) > MAX_HOST_CHARS:  # type: ignore[index]  # it always matches
        raise ValueError(f"its host is longer than {MAX_HOST_CHARS} characters")
    parts = urlsplit(link)
    path = quote(_LONE_PERCENT.sub("%25", _without_dots(parts.path or "/")), safe=_PATH_SAFE)
    query = quote(_LONE_PERCENT.sub("%25", parts.query), safe=_QUERY_SAFE)
    address = f"{parts.scheme}://{_authority(parts)}{path}{'?' if query else ''}{query}"
    if len(address) > MAX_LINK_CHARS:
        raise ValueError(f"{len(address)} characters are more than {MAX_LINK_CHARS}")
    return address


def host_of(address: str) -> str:
    """Give the host of a normalised address, an IPv6 address without its brackets."""
    authority = address.split("/", 3)[2].rpartition("@")[2]
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0]


def _authority(parts: SplitResult) -> str:
    user, _, place = parts.netloc.rpartition("@")
    if user:
        user = quote(_LONE_PERCENT.sub("%25", user), safe=_USER_SAFE) + "@"
    port = parts.port  # raises ValueError above 65535
    if port == 0:
        raise ValueError("port 0 cannot be asked")
    written = "" if port in (None, DEFAULT_PORTS[parts.scheme]) else f":{port}"
    return f"{user}{_bracketed(place) if '[' in place else host_name(parts.hostname or '')}{written}"


def _bracketed(place: str) -> str:
    found = _BRACKETED.fullmatch(place)
    if found is None:
        raise ValueError(f"{place[:80]!r} is no IPv6 address with an optional port")
    return f"[{IPv6Address(found[1])}]"


def host_name(host: str) -> str:
    """Give the one spelling of a host in lower case: names in ASCII, IPv4 addresses as four decimal numbers.

    Raises:
        ValueError: it is neither.
    """
    if not host.isascii():
        host = idna.encode(host, uts46=True).decode("ascii")
    if not _HOST_NAME.fullmatch(host):
        raise ValueError(f"{host[:80]!r} is no host name" if host else "the link has no host")
    if "xn--" in host:
        idna.decode(host)  # raises ValueError where nobody could have meant it
    return str(_ipv4(host)) if _ENDS_IN_NUMBER.search(host) else host


def _ipv4(host: str) -> IPv4Address:
    """Read an address in any of the forms that resolvers take: `127.1`, `0x7f.0.0.1`, `2130706433`.

    Source: WHATWG URL Standard, "IPv4 parser", which browsers follow.
    """
    numbers = [_number(part) for part in host.removesuffix(".").split(".")]
    *first, last = numbers
    if len(first) > 3 or any(number > 255 for number in first) or last >= 256 ** (4 - len(first)):
        raise ValueError(f"{host[:80]!r} is no IPv4 address")
    return IPv4Address(sum(number << (24 - 8 * place) for place, number in enumerate(first)) + last)


def _number(part: str) -> int:
    digits, base = (part[2:] or "0", 16) if part.startswith("0x") else (part, 8 if part[:1] == "0" else 10)
    if not _DIGITS[base].fullmatch(digits):
        raise ValueError(f"{part[:80]!r} is no number of an IPv4 address")
    return int(digits, base)


def _without_dots(path: str) -> str:
    """Resolve "." and ".." segments.

    Source: RFC 3986, 5.2.4.
    """
    if "/." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)
