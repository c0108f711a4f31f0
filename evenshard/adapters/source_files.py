"""Which files a source means: one file, a folder, or a glob pattern, on the local file system."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evenshard.core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

SUFFIX: Final = ".parquet"
MAX_ENTRIES_SHOWN: Final = 3


def find_files(source: str) -> list[str]:
    """Give the absolute paths of the files that a source means, sorted by path.

    Args:
        source: a file, taken as it is; a folder, searched through for `.parquet` files, its hidden files
            and those that begin with `_` left out; or a glob pattern, in which `**` crosses folders.

    Raises:
        OptionError: there is no such file, or the folder or pattern holds no Parquet file.
    """
    try:
        return _find(source)
    except (OSError, ValueError) as error:  # such as a name that is too long, or has a NUL in it
        if isinstance(error, OptionError):
            raise
        raise OptionError("source", f"{source[:100]} cannot be looked for: {error.__class__.__name__}") from error


def _find(source: str) -> list[str]:
    path = Path(source)
    if path.is_file():
        return [str(path.absolute())]
    if path.is_dir():
        return _nonempty(_tables(path), source, _what_is_in(path))
    if glob.has_magic(source):
        return _nonempty(map(Path, glob.glob(source, recursive=True)), source, "no file matches the pattern")  # noqa: PTH207 - patterns may be absolute
    raise OptionError("source", f"{source} does not exist; give a Parquet file, a folder of them, or a quoted pattern")


def _tables(folder: Path) -> Iterable[Path]:
    for path in folder.rglob(f"*{SUFFIX}"):
        if not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts):
            yield path


def _nonempty(paths: Iterable[Path], source: str, otherwise: str) -> list[str]:
    found = sorted(str(path.absolute()) for path in paths if path.is_file())
    if not found:
        raise OptionError("source", f"{source}: {otherwise}")
    return found


def _what_is_in(folder: Path) -> str:
    entries = sorted(entry.name for entry in folder.iterdir())
    if not entries:
        return f"the folder is empty; give one with {SUFFIX} files"
    shown = ", ".join(entries[:MAX_ENTRIES_SHOWN]) + (", ..." if len(entries) > MAX_ENTRIES_SHOWN else "")
    return f"no {SUFFIX} file in the folder, only {shown}"
