"""Requests to S3 through boto3: one client per process and settings, and each request asked again where that helps.

botocore's own retries are switched off. It hides how often it asked, and whether an earlier request may have been
done though its answer never came: with conditional writes that decides between "it is there already" and "we did
it". It also counts retries against one allowance for all threads, which a storm of SlowDown uses up; and it does
not read bodies again that break off.
"""

from __future__ import annotations

import random
import re
import threading
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import boto3
from botocore.config import Config

from evenshard.adapters.s3_errors import FOREIGN, CutError, failure_of
from evenshard.core.errors import UsageError
from evenshard.core.s3_failure import NO_ANSWER, Kind, S3Failure, should_retry, wait_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from evenshard.core.s3_place import Place, S3Settings

CONNECT_SECONDS: Final = 5.0
SILENCE_SECONDS: Final = 60.0
"""Completing a large upload may take a server so long."""

MAX_CONNECTIONS: Final = 32
PAGE_KEYS: Final = 1000
"""No server gives more at once. Source: S3 API Reference, ListObjectsV2."""

PARTIAL: Final = 206
RANGE_BYTES: Final = 8 * 2**20
"""What is asked for at once of an object: as much as is asked for again when a connection breaks."""

NEEDED: Final = {
    "head_object": ("ContentLength", "ETag"),
    "list_objects_v2": ("IsTruncated",),
    "list_multipart_uploads": ("IsTruncated",),
    "create_multipart_upload": ("UploadId",),
    "upload_part": ("ETag",),
}
"""What an answer must tell. One that breaks off in its head is taken for a whole one by what is below boto3, and a
listing without a body for an empty one."""


class S3FailedError(Exception):
    """A request was not done.

    Args:
        failure: why.
        in_doubt: whether an earlier attempt at it may have been done, its answer lost.
    """

    def __init__(self, failure: S3Failure, in_doubt: bool = False) -> None:
        super().__init__(failure, in_doubt)
        self.failure, self.in_doubt = failure, in_doubt

    def __str__(self) -> str:
        """Say what happened."""
        return self.failure.told


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Bytes of an object.

    Args:
        data: they themselves.
        start: position of the first one.
        total_bytes: length of the object.
        etag: its version, as the server writes it.
    """

    data: bytes
    start: int
    total_bytes: int
    etag: str


_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+)", re.ASCII)
"""Source: RFC 9110, 14.4."""

_Taken = TypeVar("_Taken")


class S3Client:
    """Asks one server. Threads may share it.

    Args:
        settings: where it is, and how buckets are named.
        sleep: waits between attempts.

    Raises:
        UsageError: the settings, or boto3's own, are no use.
    """

    def __init__(self, settings: S3Settings, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._has_answered = False
        try:
            self._client = boto3.session.Session().client(
                "s3", endpoint_url=settings.endpoint_url, config=_config(settings)
            )
        except FOREIGN as error:
            told = failure_of(error, settings.endpoint_url or "S3").told
            raise UsageError(f"S3 cannot be set up: {told}") from error
        self.endpoint_url = str(self._client.meta.endpoint_url)

    def ask(self, operation: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - as boto3 takes and gives
        """Send one request, again and again if need be; gives the answer.

        Raises:
            S3FailedError: it is not done.
        """
        return self.ask_and_take(operation, lambda answer: answer, **arguments)

    def ask_and_take(
        self,
        operation: str,
        take: Callable[[dict[str, Any]], _Taken],
        **arguments: Any,  # noqa: ANN401 - as boto3 takes them
    ) -> _Taken:
        """Send one request, and have its body read; if that breaks off, all of it is done again.

        Raises:
            S3FailedError: it is not done.
        """
        attempt, in_doubt = 1, False
        while True:
            try:
                taken = take(_whole(operation, getattr(self._client, operation)(**arguments)))
            except FOREIGN as error:
                failure = failure_of(error, self.endpoint_url)
            else:
                self._has_answered = True
                return taken
            self._has_answered |= failure.kind not in NO_ANSWER
            if not should_retry(failure, attempt=attempt, has_answered=self._has_answered):
                raise S3FailedError(failure, in_doubt or failure.leaves_doubt)
            in_doubt |= failure.leaves_doubt
            self._sleep(wait_seconds(attempt=attempt, jitter=random.random()))  # noqa: S311 - spreads load
            attempt += 1

    def read(self, place: Place, *, start: int | None, stop: int) -> Stretch:
        """Read bytes [start, stop) of an object as far as it goes, or its last `stop` bytes with no start.

        Raises:
            S3FailedError: it cannot be done; of kind NO_RANGE if the object has no byte there.
        """
        wanted = f"bytes=-{stop}" if start is None else f"bytes={start}-{stop - 1}"
        return self.ask_and_take("get_object", _stretch_in, **at(place), Range=wanted)

    def find(self, place: Place) -> dict[str, Any] | None:
        """Look an object up, checksums included; gives what HEAD tells, or None if there is none.

        Raises:
            S3FailedError: it cannot be looked up.
        """
        try:
            answer = self.ask("head_object", **at(place), ChecksumMode="ENABLED")
            while _may_be_cut(answer):
                before, answer = answer, self.ask("head_object", **at(place), ChecksumMode="ENABLED")
                if (before["ContentLength"], before["ETag"]) == (answer["ContentLength"], answer["ETag"]):
                    break
        except S3FailedError as error:
            if error.failure.kind is Kind.MISSING:
                return None
            raise
        return answer

    def list(self, bucket: str, prefix: str) -> Iterator[dict[str, Any]]:
        """Give what keys that begin so stand for, in the order of the keys' bytes, page by page.

        Raises:
            S3FailedError: it cannot be listed.
        """
        following = {"ContinuationToken": "NextContinuationToken"}
        for page in self._pages("list_objects_v2", following, Bucket=bucket, Prefix=prefix, MaxKeys=PAGE_KEYS):
            yield from page.get("Contents", ())

    def list_uploads(self, bucket: str, prefix: str) -> Iterator[dict[str, Any]]:
        """Give the uploads in parts that were begun for such keys, and neither completed nor given up.

        Raises:
            S3FailedError: they cannot be listed.
        """
        following = {"KeyMarker": "NextKeyMarker", "UploadIdMarker": "NextUploadIdMarker"}
        asked = {"Bucket": bucket, "Prefix": prefix, "MaxUploads": PAGE_KEYS}
        for page in self._pages("list_multipart_uploads", following, **asked):
            yield from page.get("Uploads", ())

    def _pages(self, operation: str, following: Mapping[str, str], **arguments: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401
        """Ask for page after page; what asks for the next one is named by what a page calls it."""
        more: dict[str, str] = {}
        while True:
            page = self.ask(operation, **arguments, **more)
            yield page
            if not page.get("IsTruncated"):
                return
            more = {name: page[told] for name, told in following.items()}


def at(place: Place) -> dict[str, str]:
    """Name an object as boto3 wants it."""
    return {"Bucket": place.bucket, "Key": place.key}


def _config(settings: S3Settings) -> Config:
    """Say how boto3 is to ask.

    Checksums are sent as fields of our own: what boto3 adds by itself over TLS, behind the body, is refused by
    servers that do not know it, such as Ceph 16.
    """
    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=SILENCE_SECONDS,
        retries={"total_max_attempts": 1, "mode": "standard"},
        s3={"addressing_style": settings.addressing_style},
        max_pool_connections=MAX_CONNECTIONS,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        tcp_keepalive=True,
    )


def _whole(operation: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Give an answer that tells what it must.

    Raises:
        CutError: it does not.
    """
    etag = answer.get("ETag", "")
    if any(answer.get(name) is None for name in NEEDED.get(operation, ())):
        raise CutError
    if etag[:1] == '"' and (len(etag) == 1 or etag[-1] != '"'):
        raise CutError
    return answer


def _may_be_cut(answer: dict[str, Any]) -> bool:
    """Say whether what matters stands in the last field of an answer without a body, which may break off there."""
    return list(answer["ResponseMetadata"]["HTTPHeaders"])[-1:] in (["content-length"], ["etag"])


def _stretch_in(answer: dict[str, Any]) -> Stretch:
    """Read the body of an answer. One without a range is the whole object, which is right if it is small.

    Raises:
        CutError: it is not whole.
    """
    length, status = answer.get("ContentLength"), answer["ResponseMetadata"]["HTTPStatusCode"]
    found = _RANGE.fullmatch(answer.get("ContentRange", ""))
    if length is None or "ETag" not in answer or (status == PARTIAL and found is None):
        raise CutError
    if found is None and length > RANGE_BYTES:
        answer["Body"].close()
        raise S3FailedError(S3Failure(kind=Kind.REFUSED, told="the server gives no byte ranges of objects"))
    data = answer["Body"].read()
    start, stop, total = (0, length, length) if found is None else map(int, found.groups())
    if len(data) != length or (found is not None and stop + 1 - start != length):
        raise CutError
    return Stretch(data=data, start=start, total_bytes=total, etag=answer["ETag"])


_LOCK: Final = threading.Lock()


def s3_client(settings: S3Settings) -> S3Client:
    """Give this process's client for some settings; made once, since it reads files and takes memory."""
    with _LOCK:  # boto3's sessions are not for several threads
        return _client(settings)


@lru_cache(maxsize=8)
def _client(settings: S3Settings) -> S3Client:
    return S3Client(settings)


def forget_clients() -> None:
    """Have clients made anew, with the credentials that are found then."""
    with _LOCK:
        _client.cache_clear()
