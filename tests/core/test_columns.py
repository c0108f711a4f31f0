"""Columns of files that differ."""

from __future__ import annotations

import pytest

from evenshard.core.columns import NULL, Footer, resolve_columns
from evenshard.core.errors import ColumnError
from evenshard.core.recipe import Column, Kind


def footer(path: str, **columns: str) -> Footer:
    """Describe a file of one row."""
    return Footer(path=path, num_rows=1, num_bytes=1, version="1", columns=columns)


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
