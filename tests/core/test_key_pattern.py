"""Patterns over keys mean what they mean over paths."""

from __future__ import annotations

import glob
from typing import TYPE_CHECKING

import pytest

from evenshard.core.key_pattern import fixed_part, num_matched

if TYPE_CHECKING:
    from pathlib import Path

KEYS = ("a.parquet", "b/a.parquet", "b/c/a.parquet", "b/c/x.json", "b/d1/y.parquet", "b/d2/y.parquet", "e[1]/z.parquet")
PATTERNS = (
    "*", "*.parquet", "*/*.parquet", "**", "**/*.parquet", "b/**", "b/**/*.parquet", "b/d?/*", "b/d[12]/y.*",
    "b/[!d]*/*", "**/c/**", "**/**/a.parquet", "b/*", "nothing*", "e[[]1]/*", "b/c/?.json",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_pattern_means_the_same_keys_as_paths(pattern: str, tmp_path: Path) -> None:
    """Against the standard library on a real folder: the files that it names."""
    for key in KEYS:
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).touch()
    files = {name for name in glob.glob(pattern, root_dir=tmp_path, recursive=True) if (tmp_path / name).is_file()}  # noqa: PTH207 - it is the measure
    parts = pattern.split("/")
    assert files == {key for key in KEYS if num_matched(parts, key.split("/")) == len(key.split("/"))}


@pytest.mark.parametrize(
    ("pattern", "key", "number"),
    [("b/*", "b/c/a.parquet", 2), ("b/d?", "b/d1/y.parquet", 2), ("b/d?", "b/c/a.parquet", 0), ("x", "b/c", 0)],
)
def test_folder_is_meant_when_a_pattern_ends_before_a_key(pattern: str, key: str, number: int) -> None:
    """What is matched of a longer key is a folder, which is searched through."""
    assert number == num_matched(pattern.split("/"), key.split("/"))


@pytest.mark.parametrize(
    ("pattern", "fixed"), [("a/b*/c", "a/"), ("*", ""), ("a/b/?", "a/b/"), ("a/b", "a/b"), ("a[b]/c", "")]
)
def test_fixed_part_ends_before_the_first_wildcard(pattern: str, fixed: str) -> None:
    """It is what is asked of the server; a text without wildcards is fixed as a whole."""
    assert fixed == fixed_part(pattern)
