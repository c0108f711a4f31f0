"""Objects written to S3, at once or in parts, and held against what was sent."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from evenshard.adapters.s3_client import RANGE_BYTES, S3FailedError, at
from evenshard.core.s3_failure import Kind, S3Failure
from evenshard.core.upload import PART_BYTES, Sent, content_md5, cut, describe, md5_of, part_bytes_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evenshard.adapters.s3_client import S3Client
    from evenshard.core.s3_place import Place

_GONE: Final = S3Failure(kind=Kind.MAY_PASS, told="it was written, and is not there")
_OTHER: Final = S3Failure(
    kind=Kind.MAY_PASS, told="the store holds other bytes than were sent, by size or checksum; another wrote it, or "
    "the store damaged it"
)  # fmt: skip


def upload(client: S3Client, place: Place, parts: Sequence[bytes], *, part_bytes: int = PART_BYTES) -> None:
    """Write an object from its joined parts, and check what the store has then.

    Raises:
        S3FailedError: it could not be written, or came out as something else.
    """
    num_bytes = sum(map(len, parts))
    if num_bytes <= part_bytes:
        put(client, place, b"".join(parts))
        return
    _upload_parts(client, place, parts, part_bytes=part_bytes_for(num_bytes, least=part_bytes))


def put(client: S3Client, place: Place, body: bytes, **condition: str) -> None:
    """Write an object at once, perhaps under a condition, and check what the store has then.

    What replaces a certain state may be replaced itself before it is looked at: then the answer counts, which
    names what was stored.

    Raises:
        S3FailedError: it could not be written, or came out as something else.
    """
    sent = describe([body])
    fields = {"ContentMD5": content_md5(md5_of([body])), "ChecksumCRC32": sent.crc32}
    answer = client.ask("put_object", **at(place), Body=body, **fields, **condition)
    is_named = answer.get("ETag", "").strip('"') == sent.etag
    if not ("IfMatch" in condition and is_named):
        check(client, place, sent, [body])


def _upload_parts(client: S3Client, place: Place, parts: Sequence[bytes], *, part_bytes: int) -> None:
    """Write a large object; one request after the other, so that one part is held beside the object."""
    upload_id = client.ask("create_multipart_upload", **at(place))["UploadId"]
    try:
        digests, named = [], []
        for number, part in enumerate(cut(parts, part_bytes=part_bytes), start=1):
            digests.append(md5_of([part]))
            fields: dict[str, Any] = {"UploadId": upload_id, "PartNumber": number}
            md5 = content_md5(digests[-1])
            answer = client.ask("upload_part", **at(place), **fields, Body=part, ContentMD5=md5)
            named.append({"PartNumber": number, "ETag": answer["ETag"]})
        sent = describe(parts, part_md5s=digests)
        _complete(client, place, upload_id, named)
        check(client, place, sent, parts)
    except BaseException:
        with suppress(S3FailedError):  # what it leaves then is swept; the first error is what counts
            client.ask("abort_multipart_upload", **at(place), UploadId=upload_id)
        raise


def _complete(client: S3Client, place: Place, upload_id: str, named: list[dict[str, Any]]) -> None:
    """Join the parts. Asked again after it was done, a server knows the upload no more; the check then decides."""
    try:
        client.ask("complete_multipart_upload", **at(place), UploadId=upload_id, MultipartUpload={"Parts": named})
    except S3FailedError as error:
        if not (error.in_doubt and error.failure.kind is Kind.MISSING):
            raise


def check(client: S3Client, place: Place, sent: Sent, parts: Sequence[bytes]) -> None:
    """Hold what the store has against what was sent.

    By size, and by its ETag, if that is an MD5; or by its CRC32 where it encrypts, so that the ETag is none. Where
    neither tells, what was stored is read back: a CRC32 alone can be an echo of what was sent.

    Raises:
        S3FailedError: it is something else, or cannot be looked at.
    """
    found = client.find(place)
    if found is None:
        raise S3FailedError(_GONE, in_doubt=True)
    if found["ContentLength"] != sent.num_bytes or not _is_same(client, place, found, sent, parts):
        raise S3FailedError(_OTHER, in_doubt=True)


def _is_same(client: S3Client, place: Place, found: dict[str, Any], sent: Sent, parts: Sequence[bytes]) -> bool:
    if found["ETag"].strip('"') == sent.etag:
        return True
    if found.get("ServerSideEncryption", "").startswith("aws:kms") and found.get("ChecksumCRC32") == sent.crc32:
        return True
    return _holds(client, place, parts)


def _holds(client: S3Client, place: Place, parts: Sequence[bytes]) -> bool:
    """Read an object back, and compare it."""
    position = 0
    for expected in cut(parts, part_bytes=RANGE_BYTES):
        if client.read(place, start=position, stop=position + len(expected)).data != expected:
            return False
        position += len(expected)
    return True
