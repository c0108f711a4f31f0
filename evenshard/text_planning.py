"""A plan from archives of text: found, looked through by their headers, and their members shared out by bytes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evenshard.adapters.source_files import find_files
from evenshard.archive_scans import scan_all, told
from evenshard.core.errors import BadSourcesError, DamagedArchiveError, OptionError
from evenshard.core.plan import LeftOut, Plan, Source
from evenshard.core.recipe import TEXTS, OnBadFile, Recipe
from evenshard.core.source_address import scheme_of, shown
from evenshard.core.tar import BLOCK_BYTES
from evenshard.core.text_schema import TEXT_SCHEMA
from evenshard.core.texts import Archive, Member

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evenshard.adapters.source_files import SourceFile
    from evenshard.planning import Request

SUFFIX: Final = ".tar"
"""Of archives in folders, in any letter case."""

ARCHIVE: Final = "archive"
"""Field that names the archive of a document; in a plan's sources it stands with the values of folders."""


def find_archives(source: str) -> list[SourceFile]:
    """Give the archives that a source means, sorted by path, as `find_files` does.

    Each has a name, which its samples bear: its path below the source, which tells archives of one base name apart
    and is the same wherever the source lies.

    Raises:
        OptionError: there are none; or it is an address.
    """
    if scheme_of(source) is not None:
        raise OptionError("source", f"{shown(source)}: archives are read from folders of this machine only")
    files = find_files(source, suffix=SUFFIX)
    folder = Path(source).absolute() if Path(source).is_dir() else _common_folder([file.path for file in files])
    return [replace(file, partition=((ARCHIVE, _name(file.path, folder)),)) for file in files]


def _common_folder(paths: Sequence[str]) -> Path:
    return Path(os.path.commonpath([str(Path(path).parent) for path in paths]))


def _name(path: str, folder: Path) -> str:
    """Name an archive; a byte that is not UTF-8 stays readable, as its number."""
    return os.fsencode(Path(path).relative_to(folder)).decode("utf-8", "backslashreplace")


def plan_archives(
    files: Sequence[SourceFile], request: Request, *, generation: int, libraries: tuple[str, ...]
) -> Plan:
    """Plan the members of archives, equal by packed bytes to within one member for each rank.

    Raises:
        BadSourcesError: archives that are none or are cut, all at once; or that cannot be opened.
    """
    archives, left_out = _usable([file.path for file in files], request)
    names = {file.path: file.partition for file in files}
    sources = tuple(
        Source(
            path=archive.path,
            num_rows=len(archive.units),
            num_bytes=archive.num_bytes,
            version=str(archive.modified_ns),
            partition=names[archive.path],
        )
        for archive in archives
    )
    return Plan(
        sources=sources,
        world=request.world,
        recipe=_recipe(request, libraries),
        rows_per_slice=request.rows_per_slice,
        generation=generation,
        left_out=left_out,
        shard_starts=request.world.weighted_starts([weight for archive in archives for weight in _weights(archive)]),
    )


def _recipe(request: Request, libraries: tuple[str, ...]) -> Recipe:
    return Recipe(
        columns=(),
        transform=TEXTS,
        schema=TEXT_SCHEMA,
        chunk_bytes=request.chunk_bytes,
        libraries=libraries,
        on_bad_file=request.on_bad_file,
    )


def _usable(paths: Sequence[str], request: Request) -> tuple[list[Archive], tuple[LeftOut, ...]]:
    """Look through archives; gives those to use, and those that are left out.

    A cut archive is bad, since it is most likely a download that broke off. Where bad ones are not to end the run, its
    whole members are used, and the place where it breaks off is counted.
    """
    found = dict(zip(paths, scan_all(paths), strict=True))
    archives = [each for each in found.values() if isinstance(each, Archive)]
    errors = {path: each for path, each in found.items() if isinstance(each, Exception)}
    unknown = [(path, told(each)) for path, each in errors.items() if not isinstance(each, DamagedArchiveError)]
    if request.on_bad_file is OnBadFile.SKIP and not unknown and archives:
        return archives, tuple(LeftOut(path=path, reason=told(each)) for path, each in errors.items())
    bad = {path: told(each) for path, each in errors.items()}
    if request.on_bad_file is OnBadFile.FAIL:
        bad |= {each.path: _where_cut(each) for each in archives if each.is_cut}
    if bad:
        raise BadSourcesError([(path, bad[path]) for path in paths if path in bad])
    return archives, ()


def _where_cut(archive: Archive) -> str:
    last = archive.failures[-1]
    where = f"member {last.member}: " if last.member is not None else ""
    return f"{where}{last.detail}; --on-bad-file skip takes the members before"


def _weights(archive: Archive) -> list[int]:
    """Give the bytes that each member takes in its archive, its header included; what is broken has no others."""
    return [BLOCK_BYTES + (unit.num_bytes if isinstance(unit, Member) else 0) for unit in archive.units]
