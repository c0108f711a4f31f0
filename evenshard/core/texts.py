"""Documents of text archives: where they stand, and what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Self

from evenshard.core.names import shown
from evenshard.core.outcome import FILTERS, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable


class Document(NamedTuple):
    """One text. A tuple, since there are millions.

    Args:
        position: its place among all entries of the inner tar, from 0.
        name: its name there.
        data: valid UTF-8, byte for byte as it stands there.
    """

    position: int
    name: str
    data: bytes

    @property
    def num_bytes(self) -> int:
        """Bytes of its text."""
        return len(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFailure:
    """Why a document, a member, or the rest of an archive is not handed out.

    Args:
        archive: path of the archive.
        member: name of the member, or None where the archive itself breaks off.
        document: name of the document, or None where it is the whole member.
        reason: the kind, counted in reports.
        detail: what was seen, one line.
    """

    archive: str
    member: str | None
    document: str | None = None
    reason: Reason
    detail: str = ""

    @property
    def is_meant(self) -> bool:
        """Say whether it is left out on purpose, and is no failure."""
        return self.reason in FILTERS

    def __str__(self) -> str:
        """Name archive, member and document, then the reason."""
        parts = [shown(self.archive)]
        parts += [f"member {shown(self.member)}"] if self.member is not None else []
        parts += [f"document {shown(self.document)}"] if self.document is not None else []
        return f"{', '.join(parts)}: {self.reason}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file inside an archive: the unit of work.

    Args:
        archive: path of the archive.
        index: its position among all members of the archive, from 0.
        name: its name there.
        offset: where its bytes begin.
        num_bytes: how many there are.
        archive_bytes: size of the archive when it was looked through.
        archive_modified_ns: when it was changed last, likewise.
    """

    archive: str
    index: int
    name: str
    offset: int
    num_bytes: int
    archive_bytes: int
    archive_modified_ns: int

    @property
    def base_name(self) -> str:
        """The name without its folders."""
        return self.name.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """What a look through an archive's headers found.

    Args:
        path: of the archive.
        num_bytes: its size.
        members: its members, in order.
        failures: members that it does not hold whole, and the place from where on no member can be told.
        others: members that are no plain files, or hidden ones.
        modified_ns: when it was changed last.
    """

    path: str
    num_bytes: int
    members: tuple[Member, ...]
    failures: tuple[TextFailure, ...]
    others: int
    modified_ns: int

    @property
    def is_cut(self) -> bool:
        """Say whether it breaks off, in a member or between two."""
        return any(failure.reason is Reason.BROKEN_ARCHIVE for failure in self.failures)

    @property
    def units(self) -> tuple[Member | TextFailure, ...]:
        """What a plan shares out: its members, and behind them what of it is broken."""
        return (*self.members, *self.failures)

    @property
    def counts(self) -> TextCounts:
        """What is known before any member is read."""
        return TextCounts.of_members(self.failures, others=self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCounts:
    """Members and documents by what became of them.

    Args:
        members: members that were come to; an archive that breaks off counts as one, too.
        members_read: those that were sound, from end to end.
        members_failed: those that were not, by reason. Of them no document counts.
        documents: documents in the members that were read.
        kept: those that are handed out.
        skipped: those left out on purpose, by reason.
        failed: those that could not be read, by reason.
        others: entries that are no documents: folders, links, devices, hidden files, files not named `.txt`.
    """

    members: int = 0
    members_read: int = 0
    members_failed: Mapping[str, int] = field(default_factory=dict)
    documents: int = 0
    kept: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)
    others: int = 0

    @property
    def num_members_failed(self) -> int:
        """All members that failed."""
        return sum(self.members_failed.values())

    @property
    def num_skipped(self) -> int:
        """All documents that were skipped."""
        return sum(self.skipped.values())

    @property
    def num_failed(self) -> int:
        """All documents that failed."""
        return sum(self.failed.values())

    @property
    def adds_up(self) -> bool:
        """Say whether each member and each document has exactly one outcome."""
        members = self.members_read + self.num_members_failed
        return self.members == members and self.documents == self.kept + self.num_skipped + self.num_failed

    @classmethod
    def total(cls, parts: Iterable[TextCounts]) -> Self:
        """Add up."""
        listed = list(parts)
        return cls(
            members=sum(part.members for part in listed),
            members_read=sum(part.members_read for part in listed),
            members_failed=_added(part.members_failed for part in listed),
            documents=sum(part.documents for part in listed),
            kept=sum(part.kept for part in listed),
            skipped=_added(part.skipped for part in listed),
            failed=_added(part.failed for part in listed),
            others=sum(part.others for part in listed),
        )

    @classmethod
    def of_members(cls, failures: Iterable[TextFailure], *, others: int = 0) -> Self:
        """Count members that failed."""
        reasons = Counter(failure.reason.value for failure in failures)
        return cls(members=reasons.total(), members_failed=dict(sorted(reasons.items())), others=others)

    @classmethod
    def of_documents(cls, num_kept: int, lost: Iterable[TextFailure], *, others: int, ends: bool) -> Self:
        """Count documents of a sound member; `ends` says that they are the last ones."""
        reasons = Counter(failure.reason for failure in lost)
        return cls(
            members=int(ends),
            members_read=int(ends),
            documents=num_kept + reasons.total(),
            kept=num_kept,
            skipped={reason.value: reasons[reason] for reason in sorted(reasons) if reason in FILTERS},
            failed={reason.value: reasons[reason] for reason in sorted(reasons) if reason not in FILTERS},
            others=others,
        )


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(sorted(total.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some of what a member holds, in its order.

    Args:
        documents: those that are kept.
        failures: the member that failed, or documents in it that failed.
        counts: what they add up to.
        is_last: whether nothing more of the member follows.
    """

    documents: list[Document]
    failures: tuple[TextFailure, ...] = ()
    counts: TextCounts
    is_last: bool

    @property
    def num_bytes(self) -> int:
        """Bytes of its texts."""
        return sum(len(document.data) for document in self.documents)
