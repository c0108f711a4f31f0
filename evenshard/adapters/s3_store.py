"""A bucket, or what keys in it begin with, as a store.

Objects are immutable once written, but for those few that `put` and `replace` write again; a reader sees an
object whole, before and after. Where the server has conditional writes they decide between two writers; where
it has not, writers take a lock of objects first, whose limits stand in `s3_lock`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from evenshard.adapters.s3_client import RANGE_BYTES, S3FailedError, at, s3_client
from evenshard.adapters.s3_conditions import Conditions, try_conditions
from evenshard.adapters.s3_lock import S3Lock
from evenshard.adapters.s3_upload import put, upload
from evenshard.core.errors import (
    ObjectChangedError,
    ObjectExistsError,
    ObjectMissingError,
    OptionError,
    StoreError,
)
from evenshard.core.s3_failure import Kind
from evenshard.core.s3_place import Place, parse_folder
from evenshard.core.store import Entry
from evenshard.core.upload import PART_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from evenshard.adapters.s3_client import S3Client, Stretch
    from evenshard.core.s3_place import S3Settings

_LOG: Final = logging.getLogger(__name__)

OWN: Final = ".evenshard/s3/"
"""What this store needs for itself; no objects of the data set."""
PROBES: Final = OWN + "probes/"
LOCKS: Final = OWN + "locks/"

READ_ATTEMPTS: Final = 5
"""An object that is replaced each time while it is read is read so often from its beginning."""


class S3Store:
    """Objects below an address.

    Args:
        address: `s3://bucket/prefix`.
        settings: how S3 is reached.
        client: asks the server; this process's own by default.
        part_bytes: what is longer is sent in parts of that length; PART_BYTES by default.

    Raises:
        UsageError: it is no such address, or boto3's settings are no use.
    """

    def __init__(
        self, address: str, settings: S3Settings, *, client: S3Client | None = None, part_bytes: int | None = None
    ) -> None:
        folder = parse_folder(address, option="destination")
        self.address = folder.address.rstrip("/")
        self._bucket, self._prefix = folder.bucket, folder.key + "/" if folder.key else ""
        self._client, self._part_bytes = client or s3_client(settings), part_bytes or PART_BYTES
        self._lock = threading.Lock()
        self._conditions: Conditions | None = None

    def check(self) -> None:
        """Look whether the bucket is there and can be listed.

        Raises:
            OptionError: it is not, and asking again would not help.
            StoreError: nobody can say.
        """
        try:
            self._client.ask("list_objects_v2", Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)
        except S3FailedError as error:
            if error.failure.may_pass:
                raise StoreError(self.address, f"cannot be looked at: {error}") from error
            is_s3 = error.failure.kind is not Kind.MISSING
            told = str(error) if is_s3 else f"{self._client.endpoint_url} does not answer as an S3 server does"
            raise OptionError("destination", f"{self.address}: {told}") from error

    def put(self, name: str, parts: Sequence[bytes]) -> None:
        """Write an object from its joined parts, over any older one."""
        with self._told(name, "written"):
            upload(self._client, self._place(name), parts, part_bytes=self._part_bytes)

    def put_new(self, name: str, parts: Sequence[bytes]) -> None:
        """Write an object only if there is none of that name.

        Always at once: not every server looks at conditions when it joins parts.
        """
        place, body = self._place(name), b"".join(parts)
        with self._told(name, "written"):
            if self._kept().if_none_match:
                is_taken = not self._is_put(place, body, IfNoneMatch="*")
            else:
                is_taken = not self._is_put_alone(place, body, expected=None)
        if is_taken:
            raise ObjectExistsError(name, "exists already")

    def replace(self, name: str, parts: Sequence[bytes], *, expected: bytes | None) -> None:
        """Write an object only if it is as expected."""
        if expected is None:
            try:
                self.put_new(name, parts)
            except ObjectExistsError as error:
                raise ObjectChangedError(name, "was written meanwhile") from error
            return
        place, body = self._place(name), b"".join(parts)
        with self._told(name, "written"):
            found = self._read(place)
            is_put = found is not None and found[0] == expected and self._is_put_over(place, body, expected, found[1])
        if not is_put:
            raise ObjectChangedError(name, "was written meanwhile")

    def read(self, name: str) -> bytes:
        """Read a whole object."""
        with self._told(name, "read"):
            found = self._read(self._place(name))
        if found is None:
            raise ObjectMissingError(name, f"is not in {self.address}")
        return found[0]

    def read_blocks(self, name: str, *, block_bytes: int = 2**20) -> Iterator[bytes]:
        """Read an object in order, in blocks of at most `block_bytes`.

        Raises:
            ObjectMissingError: there is none.
            StoreError: it cannot be read, or was replaced meanwhile.
        """
        place, is_empty = self._place(name), True
        with self._told(name, "read"):
            for stretch in self._stretches(place):
                is_empty = False
                for start in range(0, len(stretch.data), block_bytes):
                    yield stretch.data[start : start + block_bytes]
            if is_empty and self._client.find(place) is None:
                raise ObjectMissingError(name, f"is not in {self.address}")

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        """Read the bytes [start, stop) of an object; fewer where it ends before."""
        place = self._place(name)
        with self._told(name, "read"):
            if start < stop:
                try:
                    return self._client.read(place, start=start, stop=stop).data
                except S3FailedError as error:
                    if error.failure.kind not in {Kind.MISSING, Kind.NO_RANGE}:
                        raise
            if self._client.find(place) is None:
                raise ObjectMissingError(name, f"is not in {self.address}")
        return b""

    def size(self, name: str) -> int | None:
        """Give an object's length in bytes, or None if there is none."""
        with self._told(name, "looked up"):
            found = self._client.find(self._place(name))
        return None if found is None else int(found["ContentLength"])

    def names(self, prefix: str = "") -> list[str]:
        """Give the names that begin with `prefix`, sorted."""
        return [entry.name for entry in self.entries(prefix)]

    def entries(self, prefix: str = "") -> list[Entry]:
        """Give the objects whose names begin with `prefix`, sorted by name."""
        with self._told(prefix or self.address, "listed"):
            found = [self._entry(each) for each in self._client.list(self._bucket, self._prefix + prefix)]
        kept = (entry for entry in found if not entry.name.startswith(OWN) and not entry.name.endswith("/"))
        return sorted(kept, key=lambda entry: entry.name)

    def delete(self, name: str) -> None:
        """Remove an object if it is there."""
        with self._told(name, "removed"):
            self._client.ask("delete_object", **at(self._place(name)))

    def delete_unfinished(self, *, before: float) -> int:
        """Give up uploads in parts that were begun before a time, and give their number."""
        with self._told(self.address, "swept"):
            uploads = self._client.list_uploads(self._bucket, self._prefix)
            old = [each for each in uploads if each["Initiated"].timestamp() < before]
            for each in old:
                self._give_up(each)
            for each in self._client.list(self._bucket, self._prefix + OWN):
                if each["LastModified"].timestamp() < before:
                    self._client.ask("delete_object", Bucket=self._bucket, Key=each["Key"])
        return len(old)

    def _give_up(self, upload_in_parts: dict[str, Any]) -> None:
        place = Place(bucket=self._bucket, key=upload_in_parts["Key"])
        try:
            self._client.ask("abort_multipart_upload", **at(place), UploadId=upload_in_parts["UploadId"])
        except S3FailedError as error:
            if error.failure.kind is not Kind.MISSING:  # another gave it up
                raise

    def _entry(self, listed: dict[str, Any]) -> Entry:
        name = listed["Key"].removeprefix(self._prefix)
        return Entry(name=name, num_bytes=listed["Size"], modified_at=listed["LastModified"].timestamp())

    def _place(self, name: str) -> Place:
        if name.startswith("/") or ".." in name.split("/"):
            raise StoreError(name, "is not a name inside the data set folder")
        return Place(bucket=self._bucket, key=self._prefix + name)

    @contextmanager
    def _told(self, name: str, done: str) -> Iterator[None]:
        """Name object and place in what the server said."""
        try:
            yield
        except S3FailedError as error:
            raise StoreError(name, f"cannot be {done} in {self.address}: {error}") from error

    def _stretches(self, place: Place) -> Iterator[Stretch]:
        """Read an object piece by piece; gives none if there is none, or an empty one.

        Raises:
            S3FailedError: it cannot be read.
            StoreError: it was replaced meanwhile.
        """
        position, total, etag = 0, 1, ""
        while position < total:
            try:
                stretch = self._client.read(place, start=position, stop=position + RANGE_BYTES)
            except S3FailedError as error:
                if position == 0 and error.failure.kind in {Kind.MISSING, Kind.NO_RANGE}:
                    return
                raise
            if position and stretch.etag != etag:
                raise StoreError(place.key, "was replaced while it was read")
            yield stretch
            position, total, etag = position + len(stretch.data), stretch.total_bytes, stretch.etag

    def _read(self, place: Place) -> tuple[bytes, str] | None:
        """Read a whole object, with its ETag; None if there is none."""
        for attempt in range(1, READ_ATTEMPTS + 1):
            try:
                found = list(self._stretches(place))
            except StoreError:
                if attempt == READ_ATTEMPTS:
                    raise
                continue
            break
        if found:
            return b"".join(stretch.data for stretch in found), found[0].etag
        head = self._client.find(place)
        return None if head is None else (b"", head.get("ETag", ""))

    def _kept(self) -> Conditions:
        """Give what conditions the server keeps; found out once."""
        with self._lock:
            if self._conditions is None:
                self._conditions = try_conditions(self._client, self._bucket, self._prefix + PROBES)
                lacking = [
                    *([] if self._conditions.if_none_match else ["If-None-Match"]),
                    *([] if self._conditions.etag_form else ["If-Match"]),
                ]
                if lacking:
                    _LOG.warning(
                        "%s does not keep %s of conditional writes; writers of %s take a lock object instead, which "
                        "holds as long as no writer is held up for minutes",
                        self._client.endpoint_url,
                        " and ".join(lacking),
                        self.address,
                    )
            return self._conditions

    def _is_put(self, place: Place, body: bytes, **condition: str) -> bool:
        """Write under a condition; says whether it is written.

        Where the answer to an earlier attempt was lost, that one may have been done, so that the condition does
        not hold any more for the next: then what is there tells whose it is.
        """
        try:
            put(self._client, place, body, **condition)
        except S3FailedError as error:
            if error.failure.kind not in {Kind.TAKEN, Kind.MISSING}:
                raise
            if not error.in_doubt:
                return False
            found = self._read(place)
            return found is not None and found[0] == body
        return True

    def _is_put_over(self, place: Place, body: bytes, expected: bytes, etag: str) -> bool:
        form = self._kept().etag_form
        if form is not None:
            return self._is_put(place, body, IfMatch=form(etag))
        return self._is_put_alone(place, body, expected=expected)

    def _is_put_alone(self, place: Place, body: bytes, *, expected: bytes | None) -> bool:
        """Write while nobody else does, if what is there is as expected; says whether it is written."""
        name = hashlib.sha256(place.key.encode()).hexdigest()[:16]
        owner = f"{socket.gethostname()} pid {os.getpid()}"
        with S3Lock(self._client, self._bucket, f"{self._prefix}{LOCKS}{name}/", owner=owner).held() as check:
            found = self._read(place)
            if (None if found is None else found[0]) != expected:
                return False
            check()
            put(self._client, place, body)
        return True
