"""The budget: what is held is bounded, the oldest goes first, and something always gets done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenshard.adapters.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Coroutine


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine, with a limit against hanging."""
    asyncio.run(asyncio.wait_for(coroutine, 5))


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_bytes_wait_when_none_are_left() -> None:
    """A hold that would pass the limit while another is past it waits until bytes come back."""

    async def play() -> None:
        budget = Budget(num_places=9, max_bytes=10)
        first, second = budget.begin(), budget.begin()
        assert budget.take_now(first, 12)
        assert not budget.take_now(second, 1)
        waiting = asyncio.create_task(budget.take(second, 1))
        await settle()
        assert not waiting.done()
        budget.give_back(first)
        await waiting
        assert budget.held_bytes == 1

    run(play())


def test_oldest_goes_first() -> None:
    """Of those that wait, the request that began first goes on first, whoever waited longer."""

    async def play() -> None:
        budget = Budget(num_places=9, max_bytes=10)
        full, older, younger = budget.begin(), budget.begin(), budget.begin()
        budget.take_now(full, 15)
        done: list[str] = []
        tasks = [
            asyncio.create_task(_noted(budget.take(hold, 9), name, done))
            for hold, name in ((younger, "younger"), (older, "older"))
        ]
        await settle()
        budget.give_back(full)
        await settle()
        assert done[:1] == ["older"]
        budget.give_back(older)
        await asyncio.gather(*tasks)
        assert done == ["older", "younger"]

    run(play())


async def _noted(waited: Coroutine[Any, Any, None], name: str, done: list[str]) -> None:
    await waited
    done.append(name)


def test_one_past_the_limit_goes_on_to_its_end() -> None:
    """The body that is past the limit never waits, even behind an older one; no other passes it meanwhile."""

    async def play() -> None:
        budget = Budget(num_places=9, max_bytes=10)
        older, younger = budget.begin(), budget.begin()
        assert budget.take_now(younger, 11)
        waiting = asyncio.create_task(budget.take(older, 1))
        await settle()
        assert budget.take_now(younger, 100)
        assert not waiting.done()
        budget.give_back(younger)
        await waiting

    run(play())


def test_cancelled_wait_lets_the_next_go() -> None:
    """A request that is cancelled while it waits takes nothing, and blocks nobody."""

    async def play() -> None:
        budget = Budget(num_places=9, max_bytes=10)
        full, large, small = budget.begin(), budget.begin(), budget.begin()
        budget.take_now(full, 11)
        tasks = [asyncio.create_task(budget.take(hold, n)) for hold, n in ((large, 10), (small, 1))]
        await settle()
        tasks[0].cancel()
        budget.give_back(full)
        await tasks[1]
        assert (large.num_bytes, small.num_bytes, budget.held_bytes) == (0, 1, 1)

    run(play())


def test_no_request_begins_without_room() -> None:
    """A place is given only while bytes are left, and is not kept while waiting for them."""

    async def play() -> None:
        budget = Budget(num_places=1, max_bytes=10)
        full = budget.begin()
        budget.take_now(full, 10)
        entered = asyncio.Event()

        async def enter() -> None:
            async with budget.place():
                entered.set()

        task = asyncio.create_task(enter())
        await settle()
        assert not entered.is_set()
        budget.give_back(full)
        await task

    run(play())


def test_giving_back_twice_is_once() -> None:
    """A hold gives its bytes back once."""
    budget = Budget(num_places=1, max_bytes=10)
    hold = budget.begin()
    budget.take_now(hold, 7)
    budget.give_back(hold)
    budget.give_back(hold)

    assert budget.held_bytes == 0


@pytest.mark.parametrize("num_places", [1, 3])
@given(bodies=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), max_size=12), max_bytes=st.integers(1, 40))
def test_everything_gets_done_within_the_limit(num_places: int, bodies: list[list[int]], max_bytes: int) -> None:
    """Whatever the bodies and the limit, all are read and consumed, with at most one body past the limit."""
    budget = Budget(num_places=num_places, max_bytes=max_bytes)
    largest = max(map(sum, bodies), default=0)

    async def read(chunks: list[int], done: asyncio.Queue[Any]) -> None:
        hold = budget.begin()
        async with budget.place():
            for chunk in chunks:
                await budget.take(hold, chunk)
                await asyncio.sleep(0)
        done.put_nowait(hold)

    async def play() -> None:
        done: asyncio.Queue[Any] = asyncio.Queue()
        tasks = [asyncio.create_task(read(chunks, done)) for chunks in bodies]
        for _ in bodies:
            budget.give_back(await done.get())
        await asyncio.gather(*tasks)

    run(play())
    assert budget.held_bytes == 0
    assert budget.peak_bytes <= max_bytes + largest
