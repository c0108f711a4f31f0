"""Parts from one process to another."""

from __future__ import annotations

import os
import threading
from multiprocessing import Pipe
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenshard.adapters.part_pipe import Message, Receiver, send
from evenshard.core.errors import ArchiveError
from evenshard.core.outcome import Reason
from evenshard.core.texts import Document, Member, Part, TextCounts, TextFailure

if TYPE_CHECKING:
    from collections.abc import Sequence


def part(texts: Sequence[bytes], *, names: str = "x.txt") -> Part:
    """Make a part of texts and a failure."""
    failure = TextFailure(archive="a.tar", member="m.xz", document="f.txt", reason=Reason.NOT_UTF_8, detail="at byte 3")
    return Part(
        documents=[Document(2 * index, names, text) for index, text in enumerate(texts)],
        failures=(failure,),
        counts=TextCounts.of_documents(len(texts), [failure], others=3, ends=True),
        is_last=bool(len(texts) % 2),
    )


def sent(messages: Sequence[Message]) -> list[Message]:
    """Send messages from a thread, and receive them here."""
    ours, theirs = Pipe()
    receiver = Receiver(ours.fileno())

    def send_all() -> None:
        for message in messages:
            send(theirs.fileno(), message)

    sender = threading.Thread(target=send_all)
    sender.start()
    received = [receiver.receive() for _ in messages]
    sender.join()
    ours.close()
    theirs.close()
    return received


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.lists(st.binary(max_size=300), max_size=70), max_size=4), st.text(max_size=20))
def test_parts_arrive_as_they_were(batches: list[list[bytes]], name: str) -> None:
    """Texts of any length, none at all, names, failures and counts are the same at the other end."""
    messages = [part(texts, names=name) for texts in batches]
    assert messages == sent(messages)


def test_part_arrives_whole_when_it_is_larger_than_the_pipe() -> None:
    """The system takes some of it at a time; what came before is not overwritten."""
    messages = [part([bytes([n]) * 3_000_000, b"", b"end" * n]) for n in range(3)]
    assert messages == sent(messages)


def test_error_arrives_in_the_place_of_a_part() -> None:
    """An error is a message like any other, and so is a member."""
    member = Member(
        archive="a", index=1, name="é", offset=2, num_bytes=3, archive_bytes=2**60, archive_modified_ns=2**60
    )
    error, same = sent([ArchiveError("a.tar", "m.xz", "it broke"), member])
    assert isinstance(error, ArchiveError)
    assert ("a.tar, member m.xz: it broke", member) == (str(error), same)


@pytest.mark.parametrize("message", [b"", b"\x05\0", b"\x05\0\0\0\x09\0\0\0abc"], ids=["none", "lengths", "frame"])
def test_end_is_an_error_when_the_other_side_is_gone(message: bytes) -> None:
    """Half a frame is the end of the connection, and no part."""
    connections: tuple[Any, Any] = Pipe()
    os.write(connections[1].fileno(), message) if message else None
    connections[1].close()
    with pytest.raises(EOFError):
        Receiver(connections[0].fileno()).receive()
    connections[0].close()
