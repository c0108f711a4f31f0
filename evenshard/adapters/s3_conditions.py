"""Whether an S3 server keeps conditions of writes, as found out by trying.

Not all do: some ignore `If-None-Match` and write over what is there, some refuse every `If-Match`, and Ceph 16
wants the ETag in it without the quotes that it gives it in.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from evenshard.adapters.s3_client import S3FailedError, at
from evenshard.core.s3_failure import Kind
from evenshard.core.s3_place import Place

if TYPE_CHECKING:
    from evenshard.adapters.s3_client import S3Client

WRONG_ETAG: Final = '"00000000000000000000000000000000"'

UNKNOWN_THERE: Final = frozenset({"NotImplemented", "InvalidArgument", "InvalidRequest", "501"})
"""What servers say to fields that they do not know, where they say anything."""


def _quoted(etag: str) -> str:
    return etag


def _bare(etag: str) -> str:
    return etag.strip('"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a server keeps.

    Args:
        if_none_match: whether a write can be made to fail where there is an object.
        etag_form: how an ETag is written for a write that shall fail where there is another object; None if it
            cannot be made to.
    """

    if_none_match: bool
    etag_form: Callable[[str], str] | None


def try_conditions(client: S3Client, bucket: str, prefix: str) -> Conditions:
    """Find out what a server keeps, on an object of our own that is removed at the end.

    Each request gives the same when it is repeated after its answer was lost, so doubt does no harm here.

    Args:
        client: of the server.
        bucket: where the object may be written.
        prefix: what its key begins with, and a slash.

    Raises:
        S3FailedError: nothing can be written there.
    """
    place = Place(bucket=bucket, key=prefix + uuid4().hex)
    client.ask("put_object", **at(place), Body=b"")
    try:
        found = client.find(place) or {}
        etag = str(found.get("ETag", ""))
        forms = (form for form in (_quoted, _bare) if _hindrance(client, place, IfMatch=form(etag)) is None)
        keeps = _hindrance(client, place, IfMatch=WRONG_ETAG) is Kind.TAKEN
        return Conditions(
            if_none_match=_hindrance(client, place, IfNoneMatch="*") is Kind.TAKEN,
            etag_form=next(forms, None) if keeps else None,
        )
    finally:
        with suppress(S3FailedError):  # swept later
            client.ask("delete_object", **at(place))


def _hindrance(client: S3Client, place: Place, **condition: str) -> Kind | None:
    """Say what hinders a write: its condition, or that the server does not know such; None if nothing does."""
    try:
        client.ask("put_object", **at(place), Body=b"", **condition)
    except S3FailedError as error:
        if error.failure.kind in {Kind.TAKEN, Kind.MISSING}:
            return Kind.TAKEN
        if error.failure.code in UNKNOWN_THERE:
            return Kind.REFUSED
        raise
    return None
