"""Answers to requests for parts of a file."""

from __future__ import annotations

import pytest

from evenshard.core.content_range import ContentRange, length_in, range_in
from evenshard.core.file_answer import Again, Body, Wanted, body_in
from evenshard.core.outcome import Failure


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bytes 0-9/10", (0, 10, 10)),
        ("Bytes 5-5/10 ", (5, 6, 10)),
        ("bytes 5-4/10", None),
        ("bytes 0-10/10", None),
        ("bytes 0-9/*", None),
        ("bytes */10", None),
        ("items 0-9/10", None),
        ("bytes=0-9/10", None),
        ("bytes 0-٣/10", None),
        ("", None),
        (None, None),
    ],
)
def test_range_is_read_when_it_can_be(text: str | None, expected: tuple[int, int, int] | None) -> None:
    """Half open as everywhere here; what cannot be is no range."""
    wanted = None if expected is None else ContentRange(start=expected[0], stop=expected[1], total=expected[2])
    assert wanted == range_in(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("bytes */10", 10), ("bytes */0", 0), ("bytes 0-9/10", None), (None, None)]
)
def test_length_is_read_when_there_is_no_such_range(text: str | None, expected: int | None) -> None:
    """A server that has no such range may say how long the file is."""
    assert expected == length_in(text)


WANTED = (100, 200)
CASES: dict[str, tuple[int, dict[str, str], tuple[int, int | None, int | None] | Again | str]] = {
    "whole": (200, {"content-length": "900"}, (0, 900, 900)),
    "whole of no length": (200, {"transfer-encoding": "chunked"}, (0, None, None)),
    "whole, packed": (200, {"content-length": "9", "content-encoding": "gzip"}, (0, None, None)),
    "other success": (201, {}, "HTTP 201"),
    "part": (206, {"content-range": "bytes 100-199/900"}, (100, 200, 900)),
    "short part": (206, {"content-range": "bytes 100-149/900"}, (100, 150, 900)),
    "long part": (206, {"content-range": "bytes 100-200/900"}, Again.WITHOUT_RANGE),
    "other part": (206, {"content-range": "bytes 99-199/900"}, Again.WITHOUT_RANGE),
    "part of no range": (206, {}, Again.WITHOUT_RANGE),
    "packed part": (206, {"content-range": "bytes 100-199/900", "content-encoding": "gzip"}, Again.WITHOUT_RANGE),
    "no such range": (416, {}, Again.WITHOUT_RANGE),
    "no such range any more": (416, {"content-range": "bytes */50"}, (0, 0, 50)),
    "condition": (412, {}, Again.WITHOUT_CONDITION),
    "refused": (403, {}, "HTTP 403"),
    "coding": (200, {"content-encoding": "br"}, "content coding 'br' was not asked for"),
}


@pytest.mark.parametrize("case", CASES)
def test_answer_holds_what_its_head_says_or_is_asked_for_again(case: str) -> None:
    """A table from status and fields to the bytes that the body is, or to what comes next."""
    status, headers, expected = CASES[case]
    found = body_in(status, headers, Wanted(start=100, stop=200), gives_ranges=True, num_bytes=900)
    match found:
        case Body():
            assert expected == (found.start, found.stop, found.total)
        case Failure():
            assert expected == found.detail
        case _:
            assert expected is found


def test_end_is_what_was_asked_for_when_the_length_was_not_known() -> None:
    """The last 65,536 bytes, or all of a shorter file, and nothing else."""
    for field, fits in {
        "bytes 100000-165535/165536": True,
        "bytes 0-99/100": True,
        "bytes 1-99/100": False,
        "bytes 0-65535/165536": False,
    }.items():
        found = body_in(206, {"content-range": field}, Wanted(), gives_ranges=True, num_bytes=None)
        assert fits == isinstance(found, Body), field
    assert "bytes=-65536" == Wanted().field
