"""Early warning: the first rows say whether the rest is worth its time."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from evenshard.core.early import EARLY_ROWS, Look
from evenshard.core.outcome import FILTERS, Outcome, Reason, Status


def outcome(reason: Reason | None, url: str | None = "http://a.example/x") -> Outcome:
    """Give the outcome of one row."""
    status = Status.STORED if reason is None else Status.FILTERED if reason in FILTERS else Status.FAILED
    return Outcome(source="a", row=0, status=status, reason=reason, url=url)


def look(num_failed: int, num_rows: int) -> Look:
    """Give a look at rows of which some failed."""
    failed = [outcome(Reason.HTTP_STATUS)] * num_failed
    return Look.at(failed + [outcome(None)] * (num_rows - num_failed))


@pytest.mark.parametrize(
    ("num_failed", "num_rows", "rate", "is_beyond"),
    [
        (0, 0, 0.0, False),
        (1, 256, 0.0, True),
        (0, 256, 0.0, False),
        (256, 256, 1.0, False),
        (140, 256, 0.5, False),
        (160, 256, 0.5, False),
        (180, 256, 0.5, True),
        (3, 3, 0.5, False),
        (10, 10, 0.5, False),
        (20, 20, 0.5, True),
        (1, 1, 0.01, False),
        (10, 256, 0.01, False),
        (30, 256, 0.1, False),
        (60, 256, 0.1, True),
    ],
)
def test_share_is_beyond_when_chance_cannot_explain_it(
    num_failed: int, num_rows: int, rate: float, is_beyond: bool
) -> None:
    """A few rows prove little, many prove much; at 0 one failure is too many, at 1 none is."""
    assert is_beyond is look(num_failed, num_rows).is_beyond(rate)


def test_run_goes_on_when_its_share_is_just_what_is_accepted() -> None:
    """Of 300 runs of 50 slices whose rows fail at the accepted rate, looked at after each slice, none is stopped."""
    random, num_stopped = Random(7), 0
    for _ in range(300):
        looks: list[Look] = []
        for _ in range(50):
            num_failed = round(random.gauss(0.4 * EARLY_ROWS, 7.84))  # as so many throws of a coin come out
            looks.append(Look(num_rows=EARLY_ROWS, failed=Counter({"http-status": num_failed})))
            num_stopped += Look.total(looks).is_beyond(0.4)
    assert num_stopped == 0


def test_filtered_rows_are_no_failures() -> None:
    """What was left out on purpose does not count."""
    seen = Look.at([outcome(Reason.OPTED_OUT), outcome(Reason.TOO_SMALL), outcome(Reason.TOO_SLOW)])
    assert (3, 1) == (seen.num_rows, seen.num_failed)


def test_reasons_and_hosts_are_told_the_most_frequent_first() -> None:
    """What is said names counts, reasons with their meaning, and hosts; links that are none have no host."""
    outcomes = [outcome(Reason.HTTP_STATUS, f"http://b.example:80/{n}") for n in range(5)]
    outcomes += [outcome(Reason.TOO_SLOW, "https://c.example/")] * 2 + [outcome(Reason.NO_LINK, None), outcome(None)]
    told = Look.total([Look.at(outcomes), Look.at(outcomes)]).told()

    assert told.startswith("16 of the first 18 rows failed: 10 x http-status (the server said no; see the status); 4 x")
    assert told.endswith("; most at b.example (10), c.example (4)")


def test_name_servers_are_named_when_most_failures_are_names() -> None:
    """When names do not resolve, the likely cause is this machine, and it is said."""
    told = Look.at([outcome(Reason.NAME_NOT_RESOLVED)] * 3 + [outcome(Reason.HTTP_STATUS)] * 2).told()
    assert "; most names did not resolve: look at this machine's name servers first; most at a.example (5)" in told
