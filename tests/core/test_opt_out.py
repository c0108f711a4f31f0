"""Opt-outs: what X-Robots-Tag says to us."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenshard.core.opt_out import find_opt_out


@pytest.mark.parametrize(
    ("values", "directive"),
    [
        ([], None),
        ([""], None),
        (["all"], None),
        (["nofollow"], None),
        (["noai"], "noai"),
        (["NoImageAI"], "noimageai"),
        (["nofollow, noindex"], "noindex"),
        (["nofollow", "noimageindex"], "noimageindex"),
        (["none"], "none"),
        (["unavailable_after: 25 Jun 2010 15:00:00 PST"], None),
        (["unavailable_after: 25 Jun 2010 15:00:00 PST, noai"], "noai"),
        (["max-image-preview:large, noindex"], "noindex"),
        (["googlebot: noindex"], None),
        (["googlebot: noindex, noai"], None),
        (["googlebot: nofollow, evenshard: noai"], "noai"),
        (["Evenshard : NOAI"], "noai"),
        (["*: noindex"], "noindex"),
        (["otherbot: noindex", "noai"], "noai"),
        (["noaid"], None),
        ([",,:,"], None),
    ],
)
def test_directive_counts_when_it_is_for_us(values: list[str], directive: str | None) -> None:
    """What is said to everybody or to us counts; what is said to another agent, or is something else, does not."""
    assert directive == find_opt_out(values)


def test_little_is_read_when_much_is_said() -> None:
    """Megabytes of commas are not read: they would take seconds from other rows."""
    assert "noai" == find_opt_out(["noai", "," * 1_000_000])
    assert find_opt_out([","] * 10_000 + ["noai"]) is None


@given(st.lists(st.text()))
def test_any_text_is_read(values: list[str]) -> None:
    """No value of the field raises."""
    find_opt_out(values)
