"""Columns of files that differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evenshard.core.columns import Footer, resolve_columns
from evenshard.core.errors import ColumnError
from evenshard.core.partition import NULL
from evenshard.core.recipe import Column, Kind


def footer(path: str, num_rows: int = 1, /, **columns: str) -> Footer:
    """Describe a file of one row, or of so many."""
    return Footer(path=path, num_rows=num_rows, num_bytes=1, version="1", columns=columns)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["int", "int"], Kind.INT),
        (["int", "float"], Kind.FLOAT),
        ([NULL, "int"], Kind.INT),
        (["str", NULL], Kind.STR),
        ([NULL, NULL], Kind.STR),
        (["bool"], Kind.BOOL),
        (["bytes", NULL], Kind.BYTES),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else str(value),
)
def test_column_has_one_type_when_files_differ(kinds: list[str], expected: Kind) -> None:
    """Numbers widen to floats; a column without any value takes the others' type, or text."""
    footers = [footer(f"{index}.parquet", width=kind) for index, kind in enumerate(kinds)]
    columns, problems = resolve_columns(footers, required=[], optional=["width"])
    assert (Column(name="width", kind=expected, required=False),) == columns
    assert [] == problems


def test_files_are_named_with_a_near_match_when_a_column_is_missing() -> None:
    """Each file without a required column is a problem of its own, and the near name is offered."""
    footers = [footer("a", url="str"), footer("b", URL="str"), footer("c", similarity="float")]
    _, problems = resolve_columns(footers, required=["url"], optional=[])
    assert [
        ("b", "no column 'url'; did you mean 'URL'?"),
        ("c", "no column 'url'; there are similarity"),
    ] == problems


def test_file_is_named_when_its_type_is_another() -> None:
    """Text and numbers do not mix."""
    footers = [footer("a", label="int"), footer("b", label="str")]
    _, problems = resolve_columns(footers, required=[], optional=["label"])
    assert [("b", "column 'label' is str here and int elsewhere")] == problems


def test_type_is_that_of_most_files_when_they_differ() -> None:
    """One odd file among good ones is the bad one, though it is the first; a type that fits nowhere never wins."""
    footers = [
        footer("a", label="str"),
        footer("b", label="int"),
        footer("c", label="decimal"),
        footer("d", label="int"),
    ]
    columns, problems = resolve_columns(footers, required=[], optional=["label"])
    assert Kind.INT is columns[0].kind
    assert [
        ("a", "column 'label' is str here and int elsewhere"),
        ("c", "column 'label' is decimal, which a sample cannot hold"),
    ] == problems


@pytest.mark.parametrize(
    ("kinds", "kind", "bad"),
    [
        (["str", "bytes", NULL], Kind.STR, []),
        (["int", "int", "bytes"], Kind.STR, ["0", "1"]),
        (["bytes"], Kind.STR, []),
        (["int", "int"], Kind.INT, []),
    ],
    ids=["bytes are text", "text though most are not", "bytes only", "no text at all"],
)
def test_column_is_text_when_it_must_be(kinds: list[str], kind: Kind, bad: list[str]) -> None:
    """Links and captions are text, from bytes too; files of numbers are bad, unless all are, which planning refuses."""
    footers = [footer(str(index), url=each) for index, each in enumerate(kinds)]
    columns, problems = resolve_columns(footers, required=["url"], optional=[], texts=["url"])
    assert (kind, bad) == (columns[0].kind, [path for path, _ in problems])


def test_file_without_rows_decides_nothing_when_others_have_some() -> None:
    """Types guessed from no value, and columns that nobody wrote, are no problem and no type."""
    footers = [
        footer("a", 0, n="str"),
        footer("b", 0),
        footer("c", 5, n="int", url="str"),
        footer("d", 0, url="decimal"),
    ]
    columns, problems = resolve_columns(footers, required=["url"], optional=["n"])
    assert ([Kind.STR, Kind.INT], []) == ([column.kind for column in columns], problems)


def test_column_is_there_when_only_a_file_without_rows_has_it() -> None:
    """It has that file's type, and no value."""
    columns, problems = resolve_columns([footer("a", 0, n="int"), footer("b", 5)], required=[], optional=["n"])
    assert ([Column(name="n", kind=Kind.INT, required=False)], []) == (list(columns), problems)
    _, problems = resolve_columns([footer("a", 0, n="int"), footer("b", 5)], required=["n"], optional=[])
    assert [("b", "no column 'n'; it has no column")] == problems


def test_files_without_rows_decide_when_there_are_no_others() -> None:
    """A table without a row has columns and types all the same."""
    columns, problems = resolve_columns([footer("a", 0, n="int"), footer("b", 0)], required=["n"], optional=[])
    assert ([Kind.INT], []) == ([column.kind for column in columns], problems)
    with pytest.raises(ColumnError, match="no file has column 'url'; did you mean 'URL'"):
        resolve_columns([footer("a", 0, URL="str")], required=["url"], optional=[])


def test_file_is_named_when_a_columns_values_cannot_be_told() -> None:
    """A column that stands twice is a problem where it is wanted, and of no file else."""
    twice = replace(footer("a", url="str", n="int"), unusable={"n": "stands in the file more than once"})
    footers = [twice, footer("b", url="str", n="int")]
    assert not resolve_columns(footers, required=["url"], optional=[])[1]
    _, problems = resolve_columns(footers, required=[], optional=["n"])
    assert [("a", "column 'n' stands in the file more than once")] == problems


def test_column_is_refused_when_no_file_has_it() -> None:
    """An optional column that is nowhere is a slip of the pen."""
    with pytest.raises(ColumnError, match=r"no file has column 'captoin'; did you mean 'caption'\?"):
        resolve_columns([footer("a", url="str", caption="str")], required=["url"], optional=["captoin"])


def test_column_is_refused_when_no_sample_can_hold_it() -> None:
    """A wanted column of an odd type is refused before the run; an unwanted one does not matter."""
    footers = [footer("a", url="str", seen="timestamp[ns]")]
    with pytest.raises(ColumnError, match=r"'seen' is timestamp\[ns\]"):
        resolve_columns(footers, required=["url"], optional=["seen"])
    assert not resolve_columns(footers, required=["url"], optional=[])[1]
