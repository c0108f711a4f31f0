"""One pass over documents: what is drawn from what, and going on in the middle."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenshard.core import drawing as module
from evenshard.core.epoch import MAX_FAILURES, Epoch
from evenshard.core.errors import ArchiveChangedError, OptionError, UsageError
from evenshard.core.outcome import Reason
from evenshard.core.texts import Document, Member, Part, TextCounts, TextFailure
from tests.support.chance import chi_square_limit, chi_squared

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from evenshard.core.epoch import Sample

PART = 3


def members(sizes: Sequence[int]) -> list[Member]:
    """Make members; the size of a member here is the number of its documents."""
    return [
        Member(
            archive=f"/somewhere/{index % 2}.tar",
            index=index,
            name=f"folder/{index}.xz",
            offset=0,
            num_bytes=size,
            archive_bytes=1000 + index % 2,
            archive_modified_ns=0,
        )
        for index, size in enumerate(sizes)
    ]


def parts_of(member: Member, *, length: int = 1) -> Iterator[Part]:
    """Read a member: three documents a part."""
    starts = range(0, max(1, member.num_bytes), PART)
    for start in starts:
        positions = range(start, min(start + PART, member.num_bytes))
        is_last = start == starts[-1]
        yield Part(
            documents=[Document(each, f"{each}.txt", f"{member.index}".encode() * length) for each in positions],
            counts=TextCounts.of_documents(len(positions), [], others=0, ends=is_last),
            is_last=is_last,
        )


def feed(epoch: Epoch) -> Iterator[Sample]:
    """Draw all that is left, handing in parts when they are wanted."""
    parts = (part for member in epoch.members_to_read() for part in parts_of(member))
    while True:
        while epoch.wants_more:
            epoch.add(next(parts))
        sample = epoch.draw()
        if sample is None:
            assert next(parts, None) is None
            return
        yield sample


def make(sizes: Sequence[int], *, seed: int = 0, number: int = 0, prefetch: int = 2048) -> Epoch:
    """Make an epoch."""
    return Epoch(members(sizes), seed=seed, number=number, prefetch=prefetch)


def places(samples: Sequence[Sample]) -> list[tuple[int, int]]:
    """Give which documents samples are."""
    return [place for place, _, _ in samples]


def test_sample_is_places_names_and_text() -> None:
    """A sample says where it stood, under which names, and what it says."""
    ((place, names, text),) = feed(make([0, 1]))
    assert ((1, 0), ("1.xz", "0.txt"), "1") == (place, names, text)


@pytest.mark.parametrize("prefetch", [0, 1, 4, 1000])
def test_every_document_comes_once(prefetch: int) -> None:
    """Whatever the pool, each document comes once, also of members that have none or one."""
    sizes = [7, 1, 0, 12, 3, 0]
    expected = [(index, position) for index, size in enumerate(sizes) for position in range(size)]
    for number in range(20):
        epoch = make(sizes, number=number, prefetch=prefetch)
        assert expected == sorted(places(list(feed(epoch))))
        assert (6, 6, 23) == (epoch.counts.members, epoch.counts.members_read, epoch.counts.kept)


def test_order_is_that_of_seed_and_number() -> None:
    """The same seed and number give the same order, any other ones another."""
    orders = [places(list(feed(make([20, 20], seed=s, number=n)))) for s, n in ((1, 0), (1, 0), (1, 1), (2, 0), (0, 1))]
    assert orders[0] == orders[1]
    assert 4 == len({tuple(order) for order in orders})


def test_every_order_is_equally_likely_when_the_pool_holds_all() -> None:
    """With four documents in three members of unlike size, all 24 orders come alike often in 12,000 epochs."""
    seen = Counter(tuple(places(list(feed(make([2, 1, 1], seed=3, number=number))))) for number in range(12_000))
    assert 24 == len(seen)
    assert chi_squared(list(seen.values())) < chi_square_limit(23)


def test_lone_document_comes_at_any_place() -> None:
    """The one document of a small member is no likelier to come early than those of a large one."""
    seen: Counter[int] = Counter()
    for number in range(8_000):
        order = places(list(feed(make([7, 1, 0], seed=5, number=number))))
        seen[order.index((1, 0))] += 1
    assert chi_squared([seen[place] for place in range(8)]) < chi_square_limit(7)


def test_each_draw_is_even_over_the_pool() -> None:
    """With a pool of two parts the first document is any of those six with the same chance, and none of the rest."""
    seen: Counter[int] = Counter()
    for number in range(12_000):
        epoch = make([60], seed=6, number=number, prefetch=PART + 1)
        seen[next(feed(epoch))[0][1]] += 1
    assert set(range(2 * PART)) == set(seen)
    assert chi_squared(list(seen.values())) < chi_square_limit(2 * PART - 1)


def test_members_come_in_any_order() -> None:
    """Without a pool the members' order is still drawn anew: each is first alike often."""
    seen = Counter(next(feed(make([1] * 5, seed=7, number=number, prefetch=0)))[0][0] for number in range(5_000))
    assert chi_squared([seen[index] for index in range(5)]) < chi_square_limit(4)


def test_pool_is_bounded_by_documents_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No part is asked for while the pool holds enough documents, or enough text."""
    monkeypatch.setattr(module, "MAX_POOL_BYTES", 1_000)
    for length, prefetch, most in ((1, 10, 12), (200, 10**6, 7)):
        epoch = make([200], prefetch=prefetch)
        parts = parts_of(*epoch.members_to_read(), length=length)
        while not epoch.is_read:
            while epoch.wants_more:
                epoch.add(next(parts))
            assert len(epoch._pool.items) <= most
            assert epoch._pool_bytes == sum(len(document.data) for _, document in epoch._pool.items)
            epoch.draw()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    sizes=st.lists(st.integers(0, 20), min_size=1, max_size=8),
    prefetch=st.integers(0, 40),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**128),
)
def test_rest_is_the_same_when_it_goes_on_from_a_state(
    sizes: list[int], prefetch: int, share: float, seed: int
) -> None:
    """From wherever a state is taken, and through JSON, the rest comes as it would have, and counts as much."""
    whole = make(sizes, seed=seed, prefetch=prefetch)
    expected = list(feed(whole))
    stopped = make(sizes, seed=seed, prefetch=prefetch)
    stop = round(share * len(expected))
    first = [sample for sample, _ in zip(feed(stopped), range(stop), strict=False)]
    if stop:
        assert expected[:stop] == first[:stop]
    taken = stopped.num_drawn
    stopped.drop_texts()
    resumed = Epoch.resumed(json.loads(json.dumps(stopped.state())), members(sizes))
    assert expected[taken:] == list(feed(resumed))
    assert (whole.counts, whole.num_drawn) == (resumed.counts, resumed.num_drawn)


def a_state(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - of JSON
    """Take a state in the middle, and change it."""
    epoch = make([5, 5], prefetch=4)
    samples = feed(epoch)
    for _ in range(3):
        next(samples)
    return {**epoch.state(), **changes}


def test_state_is_refused_when_it_does_not_fit() -> None:
    """A state of other archives, another version, or what is none, is an error that says so."""
    with pytest.raises(OptionError, match="state: it was taken of other archives"):
        Epoch.resumed(a_state(), members([5, 5, 5]))
    with pytest.raises(OptionError, match="state: it was taken of other archives"):
        Epoch.resumed(a_state(), members([5, 5])[::-1])
    with pytest.raises(OptionError, match="state: it is of version 99"):
        Epoch.resumed(a_state(version=99), members([5, 5]))
    for bad in ({}, a_state(random=None), a_state(counts={"x": 1}), a_state(pool=3)):
        with pytest.raises(OptionError, match="state: it is not what `state_dict` gives"):
            Epoch.resumed(bad, members([5, 5]))


def test_document_that_is_gone_is_an_error_when_a_state_needs_it() -> None:
    """What was in the pool and cannot be read any more is not left out in silence."""
    state = a_state()
    state["pool"][0][1] = 77
    with pytest.raises(ArchiveChangedError, match="it has no document 77 any more"):
        list(feed(Epoch.resumed(state, members([5, 5]))))


def test_state_is_refused_when_a_step_was_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C in the middle of a step nobody can say what was drawn."""
    epoch = make([5])
    parts = parts_of(*epoch.members_to_read())
    epoch.add(next(parts))
    epoch.state()

    def interrupt(_: object) -> TextCounts:
        raise KeyboardInterrupt

    monkeypatch.setattr(TextCounts, "total", interrupt)
    with pytest.raises(KeyboardInterrupt):
        epoch.add(next(parts))
    with pytest.raises(UsageError, match="interrupted"):
        epoch.state()


def test_failures_are_all_counted_and_the_first_are_remembered() -> None:
    """A thousand failures are kept one by one; the counts go on."""
    epoch = make([1])
    names = [f"{number}.txt" for number in range(MAX_FAILURES + 9)]
    failures = tuple(TextFailure(archive="a", member="m", document=name, reason=Reason.NOT_UTF_8) for name in names)
    counts = TextCounts.of_documents(0, failures, others=0, ends=True)
    epoch.add(Part(documents=[], failures=failures, counts=counts, is_last=True))
    assert (MAX_FAILURES, MAX_FAILURES + 9) == (len(epoch.failures), epoch.counts.num_failed)
    assert epoch.counts.adds_up
