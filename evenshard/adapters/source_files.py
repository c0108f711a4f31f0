"""Which files a source means: one file, a folder, a glob pattern, or an address; those in S3: `s3_sources`."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evenshard.adapters.ranged import FileFacts
from evenshard.adapters.s3_settings import s3_settings
from evenshard.core.errors import OptionError
from evenshard.core.link import normalise_link
from evenshard.core.outcome import Failure
from evenshard.core.partition import Partition, partition_of
from evenshard.core.s3_place import SCHEME
from evenshard.core.source_address import SCHEMES, part_login, scheme_of, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUFFIX: Final = ".parquet"
"""In any letter case."""

SIDE_SUFFIXES: Final = (".crc", ".json")
"""What other programs leave beside tables; a pattern that does not end so does not mean them."""

MAX_ENTRIES_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file that a source means.

    Args:
        path: absolute path, or an address without a login.
        partition: columns that stand in the names of its folders below the source.
        login: `user:password` that the address was given with.
        facts: size and version, where a listing told them.
    """

    path: str
    partition: Partition = ()
    login: str | None = field(default=None, repr=False)
    facts: FileFacts | None = None


def find_files(source: str, *, suffix: str = SUFFIX) -> list[SourceFile]:
    """Give the files that a source means, sorted by path.

    Args:
        source: a file, taken as it is; a folder, searched through for `.parquet` files; a glob pattern, in
            which `**` crosses folders, and a folder that matches is searched through; or the http(s)
            address of one file. What is hidden or begins with `_` is left alone below a folder and below
            the fixed part of a pattern, but for folders called `_key=value`; so are links to folders.
        suffix: of files in folders, in lower case.

    Raises:
        OptionError: there is no such file, or the folder or pattern holds none.
    """
    if scheme_of(source) == SCHEME:
        from evenshard.adapters.s3_sources import find_objects  # noqa: PLC0415 - boto3 takes a second

        return find_objects(source, s3_settings())
    if scheme_of(source) is not None:
        return [_at_address(source)]
    try:
        return _find(source, suffix)
    except (OSError, ValueError) as error:  # such as a name that is too long, or has a NUL in it
        if isinstance(error, OptionError):
            raise
        where = getattr(error, "filename", None) or source
        raise OptionError("source", f"{str(where)[:100]} cannot be looked for: {error.__class__.__name__}") from error


def _at_address(source: str) -> SourceFile:
    if scheme_of(source) not in SCHEMES:
        raise OptionError(
            "source", f"{shown(source)}: files are read from folders, from s3://, and over http and https only"
        )
    link = normalise_link(source)
    if isinstance(link, Failure):
        raise OptionError("source", f"{shown(source)} is no address: {link.detail}")
    address, login = part_login(link)
    return SourceFile(path=address, login=login)


def _find(source: str, suffix: str) -> list[SourceFile]:
    path = Path(source)
    if path.is_file():
        return [SourceFile(path=str(path.absolute()))]
    if path.is_dir():
        return _nonempty(_tables(path, suffix), path, f"{source}: {_what_is_in(path, suffix)}")
    if glob.has_magic(source):
        base = _fixed_part(source)
        return _nonempty(_matches(source, base, suffix), base, f"{source}: no file matches the pattern")
    kind = "Parquet" if suffix == SUFFIX else suffix
    raise OptionError("source", f"{source} does not exist; give a {kind} file, a folder of them, or a quoted pattern")


def _tables(folder: Path, suffix: str) -> Iterator[Path]:
    for place, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not is_left_alone(name, is_folder=True)]
        yield from (Path(place, name) for name in files if name.lower().endswith(suffix) and not is_left_alone(name))


def _refuse(error: OSError) -> None:
    """Let no folder pass that cannot be looked into; its rows would be missing without a word."""
    raise error


def _matches(pattern: str, base: Path, suffix: str) -> Iterator[Path]:
    meant = {part[0] for part in Path(pattern).parts[len(base.parts) :]}  # a pattern `_*` means such names
    for text in glob.iglob(pattern, recursive=True):  # noqa: PTH207 - patterns may be absolute
        path = Path(text)
        below, is_folder = path.relative_to(base).parts, path.is_dir()
        names = [*((name, True) for name in below[:-1]), *((name, is_folder) for name in below[-1:])]
        if any(name[0] not in meant and is_left_alone(name, is_folder=each) for name, each in names):
            continue
        if is_folder:
            yield from _tables(path, suffix)
        elif not is_side_file(path.name, pattern):
            yield path


def _fixed_part(pattern: str) -> Path:
    """Give the folder that a pattern names before its first wildcard."""
    parts = Path(pattern).parts
    first = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    return Path(*parts[:first])


def is_left_alone(name: str, *, is_folder: bool = False) -> bool:
    """Say whether a name is hidden, or one that other programs keep for themselves."""
    return name.startswith(".") or (name.startswith("_") and not (is_folder and "=" in name))


def is_side_file(name: str, pattern: str) -> bool:
    """Say whether a file is one that lies beside tables, and that a pattern does not mean by its ending."""
    return name.lower().endswith(tuple(each for each in SIDE_SUFFIXES if not pattern.lower().endswith(each)))


def _is_wanted(path: Path) -> bool:
    """Take files, and links that lead nowhere, which are named as such later; no pipes or sockets."""
    return path.is_file() or not path.exists()


def _nonempty(paths: Iterable[Path], base: Path, otherwise: str) -> list[SourceFile]:
    found = sorted({(str(path.absolute()), path.relative_to(base).parts[:-1]) for path in paths if _is_wanted(path)})
    if not found:
        raise OptionError("source", otherwise)
    return [SourceFile(path=path, partition=partition_of(folders)) for path, folders in found]


def _what_is_in(folder: Path, suffix: str) -> str:
    entries = sorted(entry.name for entry in folder.iterdir())
    if not entries:
        return f"the folder is empty; give one with {suffix} files"
    shown_entries = ", ".join(entries[:MAX_ENTRIES_SHOWN]) + (", ..." if len(entries) > MAX_ENTRIES_SHOWN else "")
    return f"no {suffix} file in the folder, only {shown_entries}"
