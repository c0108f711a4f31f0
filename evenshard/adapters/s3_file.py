"""Files in S3, read by byte ranges: see `Ranged`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from evenshard.adapters.ranged import FileChangedError, FileFacts, UnreachableError
from evenshard.adapters.s3_client import RANGE_BYTES, S3FailedError, s3_client
from evenshard.core.errors import UsageError
from evenshard.core.s3_failure import Kind
from evenshard.core.s3_place import parse_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenshard.adapters.s3_client import Stretch
    from evenshard.core.s3_place import S3Settings

END_BYTES: Final = 65_536
"""What is asked for first, of the end: most footers lie in it."""


class S3File:
    """One object, of the version that it had when planned.

    Args:
        address: `s3://bucket/key`.
        settings: how S3 is reached.
        facts: what the object was; None before that is known.

    Raises:
        UnreachableError: S3 cannot be set up.
    """

    def __init__(self, address: str, settings: S3Settings, *, facts: FileFacts | None = None) -> None:
        self._facts = facts
        try:
            self._place, self._client = parse_place(address, option="source"), s3_client(settings)
        except UsageError as error:
            raise UnreachableError(f"cannot be read: {error}") from error

    def open(self, write: Callable[[int, bytes], None]) -> FileFacts:
        """Find out what the object is, and write its end."""
        try:
            end = self._client.read(self._place, start=None, stop=END_BYTES)
        except S3FailedError as error:
            if error.failure.kind is Kind.NO_RANGE:  # it is empty
                return self._of_nothing()
            raise UnreachableError(f"cannot be read: {error}") from error
        write(end.start, end.data)
        self._facts = FileFacts(num_bytes=end.total_bytes, version=end.etag)
        return self._facts

    def read(self, start: int, stop: int, write: Callable[[int, bytes], None]) -> None:
        """Write the bytes [start, stop); a long range comes by several requests, each of which is tried again."""
        while start < stop:
            try:
                stretch = self._client.read(self._place, start=start, stop=min(start + RANGE_BYTES, stop))
            except S3FailedError as error:
                if error.failure.kind is Kind.MISSING:
                    raise FileChangedError("is gone since it was planned") from error
                if error.failure.kind is Kind.NO_RANGE:
                    raise FileChangedError("has changed since it was planned") from error
                raise UnreachableError(f"cannot be read: {error}") from error
            self._check(stretch)
            write(stretch.start, stretch.data)
            start = stretch.start + len(stretch.data)

    def _of_nothing(self) -> FileFacts:
        try:
            found = self._client.find(self._place)
        except S3FailedError as error:
            raise UnreachableError(f"cannot be read: {error}") from error
        if found is None or found["ContentLength"]:
            raise FileChangedError("has changed while it was looked at")
        return FileFacts(num_bytes=0, version=found.get("ETag", ""))

    def _check(self, stretch: Stretch) -> None:
        now = FileFacts(num_bytes=stretch.total_bytes, version=stretch.etag)
        if self._facts not in {None, now}:
            raise FileChangedError("has changed since it was planned")
        if not stretch.data:
            raise UnreachableError("cannot be read: the server gave an empty range")
