"""One pass over the documents of many members; see `evenshard.core.drawing` for its order."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Self

from evenshard.core.drawing import Drawing, check_version, no_state
from evenshard.core.errors import ArchiveChangedError, OptionError
from evenshard.core.texts import Document, Part, TextCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from evenshard.core.texts import Archive, Member, TextFailure

Sample = tuple[tuple[int, int], tuple[str, str], str]
"""((member's position, document's position), (member's base name, document's name), text)."""

MAX_FAILURES: Final = 1_000
"""As many are remembered one by one; all are counted."""


class Epoch(Drawing[Document, Part]):
    """What was read, drawn and counted so far.

    Args:
        members: all there are, in the order of the archives.
        seed: of all epochs.
        number: of this one; another number gives another order.
        prefetch: documents to have in the pool before one is drawn.
    """

    def __init__(self, members: Sequence[Member], *, seed: int, number: int, prefetch: int) -> None:
        super().__init__(len(members), seed=seed, number=number, prefetch=prefetch)
        self.counts = TextCounts()
        self.failures: list[TextFailure] = []
        self._archives = _names(members)
        self._members = members
        self._labels = [(members[place].index, members[place].base_name) for place in self._order]

    def members_to_read(self) -> list[Member]:
        """Give the members whose parts are to be added, in this order."""
        return [self._members[place] for place in self.places_to_read()]

    def start(self, archives: Iterable[Archive]) -> None:
        """Take in what is known before any member is read."""
        listed = list(archives)
        self.counts = TextCounts.total(archive.counts for archive in listed)
        for archive in listed:
            self._remember(archive.failures)

    def state(self) -> dict[str, Any]:
        """Give what `resumed` needs, as plain values that JSON can hold.

        Raises:
            UsageError: a step of it was cut off in the middle, by Ctrl-C.
        """
        return {**super().state(), "archives": self._archives, "counts": asdict(self.counts)}

    @classmethod
    def resumed(cls, state: Mapping[str, Any], members: Sequence[Member]) -> Self:
        """Go on where a state was taken: what is drawn from here on is what would have been drawn there.

        Raises:
            OptionError: it is no state, or one of another version, or of other archives.
        """
        try:
            check_version(state)
            epoch = cls(members, seed=state["seed"], number=state["epoch"], prefetch=state["prefetch"])
            if state["archives"] != epoch._archives:
                raise OptionError("state", "it was taken of other archives; give the same ones, in the same order")
            epoch._go_on(state)
            epoch.counts = TextCounts(**state["counts"])
        except (KeyError, TypeError) as error:
            raise no_state(error) from None
        return epoch

    def _blank(self, position: int) -> Document:
        return Document(position, "", b"")

    def _make(self, place: int, document: Document) -> Sample:
        index, member_name = self._labels[place]
        return (index, document.position), (member_name, document.name), document.data.decode()

    def _count(self, part: Part) -> None:
        self.counts = TextCounts.total([self.counts, part.counts])
        self._remember(part.failures)

    def _gone(self, place: int, position: int) -> Exception:
        member = self._members[self._order[place]]
        return ArchiveChangedError(member.archive, member.name, f"it has no document {position} any more")

    def _remember(self, failures: Iterable[TextFailure]) -> None:
        self.failures += list(failures)[: MAX_FAILURES - len(self.failures)]


def _names(members: Iterable[Member]) -> list[list[Any]]:
    """Tell sets of archives apart by names and sizes, in their order, wherever they lie."""
    found = Counter((member.archive, member.archive_bytes) for member in members)
    return [[path.rpartition("/")[2], num_bytes, number] for (path, num_bytes), number in found.items()]
