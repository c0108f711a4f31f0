"""Places in S3: how a bucket is reached, and what `s3://bucket/key` names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from evenshard.core.errors import OptionError
from evenshard.core.source_address import part_login, scheme_of, shown

SCHEME: Final = "s3"
MAX_PREFIX_BYTES: Final = 800
"""A key has at most 1,024 bytes, and the names in a data set folder take some. Source: S3 User Guide, object keys."""

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """How S3 is reached; nothing here changes the output, and nothing here is secret.

    Args:
        endpoint_url: of the server; None is where boto3 finds it: AWS, or as its own settings say.
        path_style: whether the bucket is named in the path and not in the host; None is where an endpoint is given.
    """

    endpoint_url: str | None = None
    path_style: bool | None = None

    def __post_init__(self) -> None:
        """Refuse what is no address of a server, or holds what belongs into no message."""
        if self.endpoint_url is None:
            return
        if part_login(self.endpoint_url)[1] is not None:
            problem = "holds a login; credentials come from boto3's chain: AWS_ACCESS_KEY_ID, ~/.aws, roles"
            raise OptionError("endpoint_url", f"{shown(self.endpoint_url)} {problem}")
        if scheme_of(self.endpoint_url) not in {"http", "https"} or not _host_of(self.endpoint_url):
            raise OptionError("endpoint_url", f"{self.endpoint_url[:100]!r} is no http(s) address of an S3 server")

    @property
    def addressing_style(self) -> str:
        """Name the way as botocore does."""
        by_path = self.endpoint_url is not None if self.path_style is None else self.path_style
        return "path" if by_path else "auto" if self.path_style is None else "virtual"


def _host_of(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    return parts.hostname if port != 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An object, or what the keys of several begin with.

    Args:
        bucket: its bucket.
        key: the rest, as it stands.
    """

    bucket: str
    key: str

    @property
    def address(self) -> str:
        """Write it as a person would."""
        return f"{SCHEME}://{self.bucket}/{self.key}"


def parse_place(address: str, *, option: str) -> Place:
    """Read `s3://bucket/key`; the key is taken as it stands, nothing in it is decoded.

    Args:
        address: what a person gave.
        option: the option's name, for the error.

    Raises:
        OptionError: the bucket cannot be called that, or the address holds a login.
    """
    plain, login = part_login(address)
    if login is not None:
        raise OptionError(option, f"{shown(address)} holds a login; credentials come from boto3's chain")
    bucket, _, key = plain.partition("://")[2].partition("/")
    if not _BUCKET.fullmatch(bucket):
        told = f"{address[:100]!r}: {bucket[:70]!r} is no bucket's name: 3 to 63 letters, digits, dots and hyphens"
        raise OptionError(option, told)
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise OptionError(option, f"{address[:100]!r} is not UTF-8") from error
    return Place(bucket=bucket, key=key)


def parse_folder(address: str, *, option: str) -> Place:
    """Read the address of a data set: a bucket, or what keys in it begin with; slashes at its end are dropped.

    Raises:
        OptionError: it is none, or one that servers do not agree about.
    """
    place = parse_place(address, option=option)
    key = place.key.rstrip("/")
    if key and not {"", ".", ".."}.isdisjoint(key.split("/")):
        raise OptionError(option, f"{address[:100]} has a part that is empty, . or .., which not every server keeps")
    if not key.isprintable() or len(key.encode()) > MAX_PREFIX_BYTES:
        raise OptionError(
            option, f"{address[:100]!r}... cannot be used: more than {MAX_PREFIX_BYTES} bytes, or unprintable"
        )
    return Place(bucket=place.bucket, key=key)
