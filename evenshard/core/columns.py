"""Which columns are read, and under which one type, when the files of a table differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from evenshard.core.errors import ColumnError
from evenshard.core.partition import NULL, Partition
from evenshard.core.recipe import Column, Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

MAX_NAMES_SHOWN: Final = 8

_GROUPS: Final[dict[str, str]] = {
    Kind.INT: "number",
    Kind.FLOAT: "number",
    Kind.STR: "text",
    Kind.BYTES: "bytes",
    Kind.BOOL: "bool",
}
"""Types that go together in one column. Of a column that must be text, bytes are text too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What planning needs of one Parquet file.

    Args:
        path: of the file.
        num_rows: rows in it.
        num_bytes: its size.
        version: changes when the content does.
        columns: name to type: a `Kind`, `NULL`, or the type's own name where no sample can hold it.
        partition: columns that stand in the names of its folders.
        unusable: columns whose values cannot be told, with the reason of each.
    """

    path: str
    num_rows: int
    num_bytes: int
    version: str
    columns: Mapping[str, str]
    partition: Partition = ()
    unusable: Mapping[str, str] = field(default_factory=dict)


def resolve_columns(
    footers: Sequence[Footer], *, required: Sequence[str], optional: Sequence[str], texts: Collection[str] = ()
) -> tuple[tuple[Column, ...], list[tuple[str, str]]]:
    """Give the wanted columns with one type each, and the files that cannot be read under them.

    A file without an optional column gives None there, as long as another file has it. Whole numbers
    and floats of one column become floats. Where types do not go together, the type of most files is the
    column's. A file without rows neither decides a type nor needs a column, unless no file has rows.
    Letter case counts; near matches are suggested.

    Args:
        footers: of all files, in order; at least one.
        required: names that every file must have.
        optional: names that at least one file must have.
        texts: those of them that are to be read as text, from bytes too.

    Returns:
        The columns, required ones first, and (file, reason) pairs in file order.

    Raises:
        ColumnError: no file has a wanted column, or its type fits in no sample.
    """
    voters = [footer for footer in footers if footer.num_rows] or list(footers)
    for name in (*required, *optional):
        if not _having(name, footers):
            raise ColumnError(f"no file has {_missing(name, dict.fromkeys(all_columns(footers), ''), verb='')}")
    problems = [
        (footer.path, _missing(name, footer.columns))
        for footer in voters
        for name in required
        if footer.num_rows and name not in footer.columns
    ]
    columns: list[Column] = []
    for name in dict.fromkeys([*required, *optional]):
        kind, others = _one_kind(_having(name, voters) or _having(name, footers), name, is_text=name in texts)
        columns.append(Column(name=name, kind=kind, required=name in required))
        problems += others
    order = {footer.path: index for index, footer in enumerate(footers)}
    return tuple(columns), sorted(problems, key=lambda problem: order[problem[0]])


def all_columns(footers: Iterable[Footer]) -> tuple[str, ...]:
    """Give the names of all files' columns, in order of first appearance."""
    return tuple(dict.fromkeys(name for footer in footers for name in footer.columns))


def _having(name: str, footers: Iterable[Footer]) -> list[Footer]:
    return [footer for footer in footers if name in footer.columns]


def _one_kind(having: Sequence[Footer], name: str, *, is_text: bool) -> tuple[Kind, list[tuple[str, str]]]:
    """Settle on the type of a column from the files that have it; gives it with the files of another."""
    known = [each for each in having if name not in each.unusable and each.columns[name] != NULL]
    groups = _GROUPS | {Kind.BYTES: "text"} if is_text else _GROUPS
    votes = Counter(groups[each.columns[name]] for each in known if each.columns[name] in groups)
    if known and not votes:
        odd = known[0].columns[name]
        raise ColumnError(f"column {name!r} is {odd}, which a sample cannot hold; name others with --columns")
    group = "text" if not votes or (is_text and "text" in votes) else votes.most_common(1)[0][0]
    kinds = {each.columns[name] for each in known if groups.get(each.columns[name]) == group}
    kind = Kind.STR if group == "text" else Kind.FLOAT if Kind.FLOAT in kinds else Kind(next(iter(kinds)))
    return kind, _of_another_type(having, name, kind, fitting={*kinds, NULL})


def _of_another_type(
    footers: Iterable[Footer], name: str, kind: Kind, *, fitting: Collection[str]
) -> list[tuple[str, str]]:
    problems: list[tuple[str, str]] = []
    for footer in footers:
        own = footer.columns[name]
        if name in footer.unusable:
            problems.append((footer.path, f"column {name!r} {footer.unusable[name]}"))
        elif own not in fitting and own not in set(Kind):
            problems.append((footer.path, f"column {name!r} is {own}, which a sample cannot hold"))
        elif own not in fitting:
            problems.append((footer.path, f"column {name!r} is {own} here and {kind} elsewhere"))
    return problems


def _missing(name: str, columns: Mapping[str, str], *, verb: str = "no ") -> str:
    folded = {each.casefold(): each for each in columns}
    near = folded.get(name.casefold()) or next(iter(get_close_matches(name, columns, n=1)), None)
    listed = ", ".join(list(columns)[:MAX_NAMES_SHOWN]) + (", ..." if len(columns) > MAX_NAMES_SHOWN else "")
    hint = f"did you mean {near!r}?" if near else f"there are {listed}" if columns else "it has no column"
    return f"{verb}column {name!r}; {hint}"
