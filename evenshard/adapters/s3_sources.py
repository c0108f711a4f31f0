"""Which objects in S3 a source means, by the rules that folders have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenshard.adapters.ranged import FileFacts
from evenshard.adapters.s3_client import S3FailedError, s3_client
from evenshard.adapters.source_files import SUFFIX, SourceFile, is_left_alone, is_side_file
from evenshard.core.errors import OptionError
from evenshard.core.key_pattern import fixed_part, has_magic, num_matched
from evenshard.core.partition import partition_of
from evenshard.core.s3_place import Place, parse_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from evenshard.adapters.s3_client import S3Client
    from evenshard.core.s3_place import S3Settings


def find_objects(source: str, settings: S3Settings) -> list[SourceFile]:
    """Give the objects that a source means, sorted by address.

    Args:
        source: `s3://bucket/key` of one, taken as it is; what the keys of several begin with, up to a slash,
            below which `.parquet` objects are searched for; or a pattern. Else as for folders.
        settings: how S3 is reached.

    Raises:
        OptionError: there is no such thing, or it cannot be looked for.
    """
    place, client = parse_place(source, option="source"), s3_client(settings)
    try:
        found = sorted(_find(client, place), key=lambda file: file.path)
    except S3FailedError as error:
        raise OptionError("source", f"{source} cannot be looked for: {error}") from error
    if found:
        return found
    if has_magic(place.key):
        raise OptionError("source", f"{source}: no object matches the pattern")
    raise OptionError("source", f"{source}: there is no such object, and no {SUFFIX} object below it")


def _find(client: S3Client, place: Place) -> Iterator[SourceFile]:
    head = client.find(place) if place.key and not place.key.endswith("/") else None
    if head is not None:
        yield _file(place, num_bytes=head["ContentLength"], etag=head.get("ETag", ""))
        return
    folder = fixed_part(place.key) if has_magic(place.key) else place.key.rstrip("/") + "/" * bool(place.key)
    is_meant = _pattern(place.key, folder) if has_magic(place.key) else _is_table
    for each in client.list(place.bucket, folder):
        parts = each["Key"].removeprefix(folder).split("/")
        if is_meant(parts):
            yield _listed(place.bucket, each, parts)


def _listed(bucket: str, each: dict[str, Any], parts: list[str]) -> SourceFile:
    return _file(
        Place(bucket=bucket, key=each["Key"]), num_bytes=each["Size"], etag=each.get("ETag", ""), folders=parts[:-1]
    )


def _file(place: Place, *, num_bytes: int, etag: str, folders: list[str] | None = None) -> SourceFile:
    facts = FileFacts(num_bytes=num_bytes, version=etag)
    return SourceFile(path=place.address, partition=partition_of(folders or ()), facts=facts)


def _is_table(parts: list[str]) -> bool:
    """Say whether an object below a folder is one of its tables."""
    *folders, name = parts
    if any(is_left_alone(folder, is_folder=True) for folder in folders) or is_left_alone(name):
        return False
    return name.lower().endswith(SUFFIX)


def _pattern(pattern: str, folder: str) -> Callable[[list[str]], bool]:
    """Give what says whether a pattern means an object below its fixed part."""
    wanted = pattern.removeprefix(folder).rstrip("/").split("/")
    meant = {part[0] for part in wanted if part}  # a pattern `_*` means such names

    def is_meant(parts: list[str]) -> bool:
        taken = num_matched(wanted, parts)
        if not taken or not parts[-1]:
            return False
        named = [(name, position < len(parts) - 1) for position, name in enumerate(parts[:taken])]
        if any(name[:1] not in meant and is_left_alone(name, is_folder=is_folder) for name, is_folder in named):
            return False
        if taken < len(parts):
            return _is_table(parts[taken:])
        return not is_side_file(parts[-1], pattern)

    return is_meant
