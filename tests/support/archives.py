"""Small archives of text: sound ones, and with the faults of the world."""

from __future__ import annotations

import gzip
import io
import lzma
import random
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from evenshard.core.epoch import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a tar is to hold.

    Args:
        name: as it is to stand there.
        data: content of a plain file.
        kind: tarfile's type.
        link: target of a link.
    """

    name: str
    data: bytes = b""
    kind: bytes = tarfile.REGTYPE
    link: str = ""


def tar(entries: Iterable[Entry], *, style: int = tarfile.PAX_FORMAT, ends: bool = True) -> bytes:
    """Make a tar; without its end mark if it is not to end."""
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w", format=style) as made:
            for entry in entries:
                info = tarfile.TarInfo(entry.name)
                info.type, info.linkname = entry.kind, entry.link
                info.size = len(entry.data) if entry.kind in (tarfile.REGTYPE, tarfile.AREGTYPE) else 0
                made.addfile(info, io.BytesIO(entry.data))
            num_bytes = made.offset
        return file.getvalue() if ends else file.getvalue()[:num_bytes]


def documents(count: int, tag: str, *, lines: int = 20) -> list[Entry]:
    """Make so many different documents."""
    return [
        Entry(name=f"{tag}/{index:07d}.txt", data=f"text {index} of {tag}\n".encode() * lines) for index in range(count)
    ]


def packed(entries: Iterable[Entry]) -> bytes:
    """Make an xz-packed tar, as the members of OpenWebText are."""
    return lzma.compress(tar(entries), preset=0)


def write_archive(path: Path, members: Mapping[str, bytes]) -> Path:
    """Write an archive of members, by name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tar(Entry(name=name, data=data) for name, data in members.items()))
    return path


def write_archives(folder: Path, *, archives: int, members: int, count: int) -> list[Path]:
    """Write archives that all look alike, but in which no document is in another one, too."""
    return [
        write_archive(
            folder / f"subset{archive:02d}.tar",
            {
                f"openwebtext/subset{archive:02d}-{member}_data.xz": packed(documents(count, f"{archive}-{member}"))
                for member in range(members)
            },
        )
        for archive in range(archives)
    ]


def flipped(data: bytes, at: int, count: int = 8) -> bytes:
    """Turn all bits of some bytes."""
    return data[:at] + bytes(byte ^ 0xFF for byte in data[at : at + count]) + data[at + count :]


def faulty_members() -> dict[str, bytes]:
    """Make ten members: five sound ones, one of them without a document, and five that are odd or broken.

    The damaged ones have two documents before the place where they are damaged.
    """
    noise = Entry(name="fat/9999.txt", data=random.Random(24).randbytes(30_000).hex().encode())
    fat = lzma.compress(tar([*documents(2, "fat"), noise]))
    halves = tar(documents(4, "multi"))
    middle = len(halves) // 2
    members = {
        "good0": packed(documents(3, "good0")),
        "empty": b"",
        "corrupt": flipped(fat, len(fat) // 2),
        "cut": fat[: len(fat) * 2 // 3],
        "gzip-inside": gzip.compress(tar(documents(2, "gz")), mtime=0),
        "not-packed": tar(documents(2, "plain")),
        "text-not-tar": lzma.compress(b"just a line, no tar\n" * 30),
        "two-streams": lzma.compress(halves[:middle]) + lzma.compress(halves[middle:]),
        "no-members": packed([]),
        "good1": packed(documents(2, "good1")),
    }
    return {f"openwebtext/{name}.xz": data for name, data in members.items()}


GOOD_TEXTS = {
    "a-plain.txt": "Ordinary text with an accent: café.\n",
    "e-bom.txt": "\ufeffStarts with a mark\n",
    "f-crlf.txt": "one\r\ntwo\r\nthree\rfour\n",
    "g-nul.txt": "before\0after\n",
    "i-long-line.txt": "word " * 40_000,
    "l-line-sep.txt": "a\u2028b\u0085c\x0cd\n",
}
"""Texts that are to stay as they are."""

BAD_TEXTS = {
    "b-latin1.txt": "Grüße aus München\n".encode("latin-1"),
    "h-cut-char.txt": "ends inside a sign \U0001f600".encode()[:-2],
    "j-surrogate.txt": b"lone half: \xed\xa0\x80 end\n",
    "k-utf16.txt": b"\xff\xfe" + "two bytes each\n".encode("utf-16-le"),
}
"""Texts that are not UTF-8."""

EMPTY_TEXTS = {"c-empty.txt": b"", "d-blank.txt": b" \n\t\n  \n"}


def odd_texts() -> bytes:
    """Make a member with all of these twelve."""
    texts = {**{name: text.encode() for name, text in GOOD_TEXTS.items()}, **BAD_TEXTS, **EMPTY_TEXTS}
    return packed(Entry(name=name, data=data) for name, data in sorted(texts.items()))


def write_uneven(path: Path) -> Path:
    """Write an archive of a folder, and of members with seven documents, one and none."""
    members = [Entry(name="openwebtext/", kind=tarfile.DIRTYPE)]
    members += [
        Entry(name=f"openwebtext/{tag}.xz", data=packed(documents(n, tag))) for tag, n in (("a", 7), ("b", 1), ("c", 0))
    ]
    path.write_bytes(tar(members))
    return path


def names_of(samples: Iterable[Sample]) -> list[str]:
    """Give the documents' names."""
    return [name for _, (_, name), _ in samples]
