"""Columns in the names of folders."""

from __future__ import annotations

import pytest

from evenshard.core.columns import Footer
from evenshard.core.partition import Partition, doubles_in, kind_of_values, partition_of, with_folder_columns


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        ([], ()),
        (["x", "y"], ()),
        (["lang=de", "x", "year=2020"], (("lang", "de"), ("year", "2020"))),
        (["key=a=b"], (("key", "a=b"),)),
        (["key="], (("key", ""),)),
        (["=x", "="], ()),
        (["lang=__HIVE_DEFAULT_PARTITION__"], (("lang", None),)),
        (["a%20b=1%2F2%25"], (("a b", "1/2%"),)),
        (["t=2020-01-01 10%3A00%3A00"], (("t", "2020-01-01 10:00:00"),)),
        (["n=%C3%BC", "m=ü", "b=%FF", "c=100%"], (("n", "ü"), ("m", "ü"), ("b", "%FF"), ("c", "100%"))),
        (["a=1", "a=2"], (("a", "1"), ("a", "2"))),
    ],
    ids=["none", "plain", "two", "sign in value", "empty", "no key", "missing", "escaped", "time", "letters", "twice"],
)
def test_columns_are_read_from_the_names_of_folders(folders: list[str], expected: Partition) -> None:
    """Each folder called `key=value` is a column, outermost first, percent-decoded where that gives UTF-8."""
    assert expected == partition_of(folders)


def test_keys_are_named_when_they_stand_twice() -> None:
    """Which of the two values is meant cannot be told."""
    assert ["a"] == doubles_in((("a", "1"), ("b", "1"), ("a", "1")))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-20", "0"], "int"),
        (["1", None], "int"),
        ([None], "null"),
        (["1", "x"], "str"),
        (["07"], "str"),
        (["+1"], "str"),
        (["-0"], "str"),
        (["1_000"], "str"),
        ([" 1"], "str"),
        (["\uff11"], "str"),
        (["1.0"], "str"),
        ([""], "str"),
        (["9223372036854775807", "-9223372036854775808"], "int"),
        (["9223372036854775808"], "str"),
        (["9" * 5000], "str"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_kind_is_a_whole_number_when_all_values_are_written_back_the_same(values: list[str | None], kind: str) -> None:
    """One value of any file that is no such number makes text of all."""
    assert kind == kind_of_values(values)


def test_folder_columns_are_added_when_the_file_has_none_of_that_name() -> None:
    """A column of the file stays the file's; the type of a folder's column is settled over all files."""

    def footer(path: str, partition: Partition, **columns: str) -> Footer:
        return Footer(path=path, num_rows=1, num_bytes=1, version="1", columns=columns, partition=partition)

    footers = [
        footer("a", (("n", "1"), ("lang", "de")), url="str"),
        footer("b", (("n", "x"),), url="str", lang="str"),
        footer("c", (), url="str"),
    ]
    assert [{"url": "str", "n": "str", "lang": "str"}, {"url": "str", "lang": "str", "n": "str"}, {"url": "str"}] == [
        footer.columns for footer in with_folder_columns(footers)
    ]
