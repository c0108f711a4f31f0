"""Archives of text: tars whose members are packed tars of documents. Read by ranges; nothing is unpacked to disk."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from evenshard.adapters.tar_stream import FileSource, PieceSource, read_headers
from evenshard.adapters.unpack import unpack
from evenshard.core.errors import ArchiveChangedError, ArchiveError, DamagedArchiveError
from evenshard.core.outcome import Reason
from evenshard.core.tar import BLOCK_BYTES, Header, Kind
from evenshard.core.texts import Archive, Document, Member, Part, TextCounts, TextFailure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUFFIX: Final = ".txt"
MAX_DOCUMENT_BYTES: Final = 2**24
MAX_MEMBER_BYTES: Final = 2**32
"""Unpacked. It bounds the time that a forged member takes; memory is bounded by documents."""
MAX_HELD_BYTES: Final = 2**26
"""Documents of one member wait in memory until its end is seen to be sound. Of a member with more, the end is looked
at first, and then it is read once more."""
PART_DOCUMENTS: Final = 64
PART_BYTES: Final = 2**20
"""Beyond this many a part gets no further document. Measured with documents of 5 kB: larger parts cost up to twice as
much to hand over, since their memory is fetched anew from the system each time."""


def scan(path: str) -> Archive:
    """Find the members of an archive, reading its headers only.

    Returns:
        Its members in order, and what is broken: a member that the file does not hold to its end, or the place from
        where on no member can be told. Every plain file is a member, whatever its name, but for hidden ones.

    Raises:
        DamagedArchiveError: not a tar at all.
        OSError: it cannot be read, or is no plain file.
    """
    with _opened(path) as (descriptor, status):
        source = FileSource(descriptor, status.st_size)
        members: list[Member] = []
        failures: list[TextFailure] = []
        others = 0
        try:
            for index, header in enumerate(read_headers(source, vouched=False)):
                found = _member(path, index, header, source, status)
                if isinstance(found, Member):
                    members.append(found)
                elif found is not None:
                    failures.append(found)
                others += found is None
                if source.at + header.num_bytes > status.st_size:
                    break
        except DamagedArchiveError as error:
            if error.reason is Reason.NOT_AN_ARCHIVE:
                raise
            failures.append(TextFailure(archive=path, member=None, reason=error.reason, detail=error.problem))
    return Archive(
        path=path,
        num_bytes=status.st_size,
        members=tuple(members),
        failures=tuple(failures),
        others=others,
        modified_ns=status.st_mtime_ns,
    )


def _member(
    path: str, index: int, header: Header, source: FileSource, status: os.stat_result
) -> Member | TextFailure | None:
    member = Member(
        archive=path,
        index=index,
        name=header.name,
        offset=source.at,
        num_bytes=header.num_bytes,
        archive_bytes=status.st_size,
        archive_modified_ns=status.st_mtime_ns,
    )
    missing = source.at + header.num_bytes - status.st_size
    if missing > 0:
        detail = f"it is cut: {missing} bytes are missing at its end"
        return TextFailure(archive=path, member=header.name, reason=Reason.BROKEN_ARCHIVE, detail=detail)
    if _is_hidden(header.name) or header.kind not in (Kind.FILE, Kind.SPARSE):
        return None
    if header.kind is Kind.SPARSE:
        detail = f"it is a {header.kind.value}"
        return TextFailure(archive=path, member=header.name, reason=Reason.UNSUPPORTED_ENTRY, detail=detail)
    return member


def read_member(member: Member) -> Iterator[Part]:
    """Read the documents of one member, which counts as a whole or not at all. What is skipped is only counted.

    The check sum that tells good text from garbage stands at a packed member's end, so that nothing is given before
    the end was seen. What the member is, its bytes say and not its name: a tar, bare or packed with xz or gzip.
    Documents are its plain files named `.txt`, but for hidden ones. Each is strict UTF-8 and stays as it is, sign
    for sign: line ends, byte-order marks and NULs too. Names are labels: nothing of that name is touched on disk.

    Raises:
        ArchiveError: the file cannot be read.
        ArchiveChangedError: the file is not what it was when it was looked through.
    """
    for group in _read(member):
        yield _part(group)


class Entries(NamedTuple):
    """Some of what a member holds, in its order.

    Args:
        texts: documents that are kept, skipped or failed; or the member that failed, alone.
        counts: what they add up to.
    """

    texts: list[Document | TextFailure]
    counts: TextCounts


def read_entries(member: Member) -> Iterator[Entries]:
    """Read one member as `read_member` does, with what is skipped by name."""
    for group in _read(member):
        yield Entries([entry for entry in group.entries if entry is not None], _part(group).counts)


def _read(member: Member) -> Iterator[_Group]:
    try:
        with _opened(member.archive) as (descriptor, status):
            if (status.st_size, status.st_mtime_ns) != (member.archive_bytes, member.archive_modified_ns):
                raise ArchiveChangedError(
                    member.archive,
                    member.name,
                    "the archive has changed since it was looked through; make a new loader",
                )
            yield from _whole(member, _MemberFile(descriptor, member))
    except OSError as error:
        problem = f"it cannot be read: {error.strerror or error}"
        raise ArchiveError(member.archive, member.name, problem) from error


def _whole(member: Member, file: _MemberFile) -> Iterator[_Group]:
    """Give all of a sound member, and of any other that it failed."""
    try:
        groups = _held(_groups(member, file))
    except DamagedArchiveError as error:
        yield _Group([_failure(member, None, error.reason, error.problem)], 0, is_last=True)
        return
    try:
        yield from _groups(member, file) if groups is None else groups
    except DamagedArchiveError as error:
        raise ArchiveChangedError(member.archive, member.name, f"it was sound, and now: {error}") from error


_Entry = Document | TextFailure | None
"""A document, one that is not handed out, or an entry that is no document; of a member that failed, that alone."""


class _Group(NamedTuple):
    """Entries that become one part."""

    entries: list[_Entry]
    num_bytes: int
    is_last: bool


def _held(groups: Iterable[_Group]) -> list[_Group] | None:
    """Go to the end of a member; gives what it holds, or None if that is too large to be held."""
    held: list[_Group] = []
    num_bytes = 0
    for group in groups:
        num_bytes += group.num_bytes
        held.append(group)
        if num_bytes > MAX_HELD_BYTES:
            held.clear()
    return held if num_bytes <= MAX_HELD_BYTES else None


def _groups(member: Member, file: _MemberFile) -> Iterator[_Group]:
    """Cut by what the entries are, so that the same member is always cut alike."""
    entries: list[_Entry] = []
    num_bytes = 0
    for entry in _entries(member, file):
        if len(entries) >= PART_DOCUMENTS or num_bytes >= PART_BYTES:
            yield _Group(entries, num_bytes, is_last=False)
            entries, num_bytes = [], 0
        entries.append(entry)
        num_bytes += BLOCK_BYTES  # one without text takes room, too
        if isinstance(entry, Document):
            num_bytes += len(entry.name) + len(entry.data)
        elif entry is not None:
            num_bytes += len(entry.document or "")
    yield _Group(entries, num_bytes, is_last=True)


def _entries(member: Member, file: _MemberFile) -> Iterator[_Entry]:
    is_packed, pieces = unpack(file)
    source = PieceSource(pieces, max_bytes=MAX_MEMBER_BYTES)
    index = -1
    for index, header in enumerate(read_headers(source, vouched=is_packed)):
        yield _entry(member, index, header, source)
    if index < 0 and not is_packed:  # an empty tar, but more likely a hole that a download left
        raise DamagedArchiveError(Reason.NOT_AN_ARCHIVE, "it holds nothing but zeros")


def _entry(member: Member, index: int, header: Header, source: PieceSource) -> _Entry:
    name, kind, num_bytes, _ = header
    if not name.endswith(SUFFIX) or _is_hidden(name) or kind in (Kind.FOLDER, Kind.LINK, Kind.DEVICE):
        return None
    if kind is not Kind.FILE:
        return _failure(member, name, Reason.UNSUPPORTED_ENTRY, f"it is a {kind.value}")
    if num_bytes > MAX_DOCUMENT_BYTES:
        detail = f"{num_bytes} bytes; at most {MAX_DOCUMENT_BYTES} are read"
        return _failure(member, name, Reason.DOCUMENT_TOO_LARGE, detail)
    data = source.take(num_bytes)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return _failure(member, name, Reason.NOT_UTF_8, f"{error.reason} at byte {error.start}")
    if not text or text.isspace():
        return _failure(member, name, Reason.EMPTY_TEXT, f"{num_bytes} bytes")
    return Document(index, name, data)


def _part(group: _Group) -> Part:
    documents = [entry for entry in group.entries if isinstance(entry, Document)]
    lost = [entry for entry in group.entries if isinstance(entry, TextFailure)]
    others = len(group.entries) - len(documents) - len(lost)
    is_member = any(each.document is None for each in lost)
    return Part(
        documents=documents,
        failures=tuple(each for each in lost if not each.is_meant),
        counts=TextCounts.of_members(lost)
        if is_member
        else TextCounts.of_documents(len(documents), lost, others=others, ends=group.is_last),
        is_last=group.is_last,
    )


def _failure(member: Member, document: str | None, reason: Reason, detail: str) -> TextFailure:
    return TextFailure(archive=member.archive, member=member.name, document=document, reason=reason, detail=detail)


def _is_hidden(name: str) -> bool:
    """Say whether a name's last part begins with a dot, as of what other systems leave beside files."""
    return (name[:1] == "." or "/." in name) and name.rstrip("/").rpartition("/")[2].startswith(".")


class _MemberFile:
    """The bytes of a member, as a file that begins and ends with it."""

    def __init__(self, descriptor: int, member: Member) -> None:
        self._descriptor = descriptor
        self._member = member
        self._at = 0

    def rewind(self) -> None:
        self._at = 0

    def read(self, size: int) -> bytes:
        size = min(size, self._member.num_bytes - self._at)
        if size <= 0:
            return b""
        data = os.pread(self._descriptor, size, self._member.offset + self._at)
        if not data:
            raise ArchiveChangedError(self._member.archive, self._member.name, "the archive is shorter than it was")
        self._at += len(data)
        return data


@contextmanager
def _opened(path: str) -> Iterator[tuple[int, os.stat_result]]:
    # Not blocking: opening a pipe would wait for somebody to write to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no plain file", path)
        yield descriptor, status
    finally:
        os.close(descriptor)
