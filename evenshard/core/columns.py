"""Which columns are read, and under which one type, when the files of a table differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from evenshard.core.errors import ColumnError
from evenshard.core.recipe import Column, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


NULL: Final = "null"
"""Type name of a column without any value, in a file whose writer had none to guess from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What planning needs of one Parquet file.

    Args:
        path: of the file.
        num_rows: rows in it.
        num_bytes: its size.
        version: changes when the content does.
        columns: name to type: a `Kind`, `NULL`, or the type's own name where no sample can hold it.
    """

    path: str
    num_rows: int
    num_bytes: int
    version: str
    columns: Mapping[str, str]


def resolve_columns(
    footers: Sequence[Footer], *, required: Sequence[str], optional: Sequence[str]
) -> tuple[tuple[Column, ...], list[tuple[str, str]]]:
    """Give the wanted columns with one type each, and the files that cannot be read under them.

    A file without an optional column gives None there, as long as another file has it. Whole numbers
    and floats of one column become floats. Letter case counts; near matches are suggested.

    Args:
        footers: of all files, in order.
        required: names that every file must have.
        optional: names that at least one file must have.

    Returns:
        The columns, required ones first, and (file, reason) pairs in file order.

    Raises:
        ColumnError: no file has a wanted column, or its type fits in no sample.
    """
    wanted = tuple(dict.fromkeys([*required, *optional]))
    problems = [
        (footer.path, _missing(name, footer.columns))
        for footer in footers
        for name in required
        if name not in footer.columns
    ]
    columns = [Column(name=name, kind=_one_kind(footers, name, problems), required=name in required) for name in wanted]
    order = {footer.path: index for index, footer in enumerate(footers)}
    return tuple(columns), sorted(problems, key=lambda problem: order[problem[0]])


def all_columns(footers: Iterable[Footer]) -> tuple[str, ...]:
    """Give the names of all files' columns, in order of first appearance."""
    return tuple(dict.fromkeys(name for footer in footers for name in footer.columns))


def _one_kind(footers: Sequence[Footer], name: str, problems: list[tuple[str, str]]) -> Kind:
    """Settle on the type of a column; files of another type are added to the problems."""
    seen = {footer.path: footer.columns[name] for footer in footers if name in footer.columns}
    if not seen:
        raise ColumnError(f"no file has {_missing(name, dict.fromkeys(all_columns(footers), ''), verb='')}")
    known = [kind for kind in seen.values() if kind != NULL]
    odd = next((kind for kind in known if kind not in set(Kind)), None)
    if odd is not None:
        raise ColumnError(f"column {name!r} is {odd}, which a sample cannot hold; leave it out of --columns")
    kind = Kind(known[0]) if known else Kind.STR
    if Kind.FLOAT in known and set(known) <= {Kind.FLOAT, Kind.INT}:
        return Kind.FLOAT
    other = [(path, each) for path, each in seen.items() if each not in {kind, NULL}]
    problems += [(path, f"column {name!r} is {each} here and {kind} elsewhere") for path, each in other]
    return kind


def _missing(name: str, columns: Mapping[str, str], *, verb: str = "no ") -> str:
    folded = {each.casefold(): each for each in columns}
    near = folded.get(name.casefold()) or next(iter(get_close_matches(name, columns, n=1)), None)
    listed = ", ".join(list(columns)[:8]) + (", ..." if len(columns) > 8 else "")
    hint = f"did you mean {near!r}?" if near else f"there are {listed}" if columns else "it has no column"
    return f"{verb}column {name!r}; {hint}"
