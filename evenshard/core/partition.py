"""Columns that stand in the names of folders: `lang=de/part-0.parquet`, as Hive, Spark and others write them.

The rule: of the folders between the source and the file, each that is called `key=value` is a column of that
file's rows. Key and value are percent-decoded; `__HIVE_DEFAULT_PARTITION__` is a missing value. A column holds
whole numbers if every value of every file reads as one and is written back the same (`7`, not `07`), else text.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote_to_bytes

from evenshard.core.recipe import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from evenshard.core.columns import Footer

Partition: TypeAlias = tuple[tuple[str, str | None], ...]
"""Names with their values, the outermost folder first; None is a missing value."""

MISSING: Final = "__HIVE_DEFAULT_PARTITION__"
NULL: Final = "null"
"""Type name of a column without any value, in a file whose writer had none to guess from."""


def partition_of(folders: Iterable[str]) -> Partition:
    """Read the names of the folders that a file lies in, the outermost first; those without a key are no columns."""
    parts = [folder.partition("=") for folder in folders]
    named = [(_decoded(key), _decoded(value)) for key, sign, value in parts if key and sign]
    return tuple((key, None if value == MISSING else value) for key, value in named)


def doubles_in(partition: Partition) -> list[str]:
    """Name the keys that stand in a path more than once."""
    return [key for key, number in Counter(key for key, _ in partition).items() if number > 1]


def kind_of_values(values: Iterable[str | None]) -> str:
    """Settle on the type of a column from all of its values."""
    known = {value for value in values if value is not None}
    if not known:
        return NULL
    return Kind.INT.value if all(map(_is_whole_number, known)) else Kind.STR.value


def with_folder_columns(footers: Sequence[Footer]) -> list[Footer]:
    """Add to each file the columns of its folders; a column that the file has itself stays the file's."""
    values: dict[str, list[str | None]] = {}
    for footer in footers:
        for key, value in footer.partition:
            values.setdefault(key, []).append(value)
    kinds = {key: kind_of_values(each) for key, each in values.items()}
    return [_with_columns(footer, kinds) if footer.partition else footer for footer in footers]


def _with_columns(footer: Footer, kinds: dict[str, str]) -> Footer:
    added = {key: kinds[key] for key, _ in footer.partition if key not in footer.columns}
    return replace(footer, columns={**footer.columns, **added})


def _decoded(text: str) -> str:
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:  # percent signs that mean something else
        return text


def _is_whole_number(text: str) -> bool:
    try:
        number = int(text)
    except ValueError:
        return False
    return str(number) == text and -(2**63) <= number < 2**63
