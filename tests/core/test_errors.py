"""The error tree."""

from __future__ import annotations

import inspect
import pickle

import pytest

from evenshard.core import errors
from evenshard.core.errors import EvenshardError, WorkerDiedError, may_pass
from evenshard.core.outcome import Reason
from evenshard.core.texts import TextFailure

ARGUMENTS = {
    errors.OptionError: ("quality", "101 is out of range"),
    errors.BadSourcesError: ([("a.parquet", "empty"), ("b.parquet", "text")],),
    errors.SliceError: (3, "broke"),
    errors.SliceReadError: (3, "broke"),
    errors.SourceChangedError: (3, "broke"),
    errors.TransformError: (3, "broke"),
    errors.WorkerDiedError: (3, "broke"),
    errors.LotError: ({3: "broke", 4: "died"}, True),
    errors.VerificationError: (["slice 1: chunk x is missing"],),
    errors.PassError: ("python -m evenshard.load\narchives a.tar", "it\nended with 1"),
    errors.UnfinishedError: ([(1, "died")],),
    errors.DamagedChunkError: ("chunk\n.bin", 3, "its fields do not fill it"),
    errors.DamagedArchiveError: (Reason.BROKEN_ARCHIVE, "it is cut"),
    errors.BrokenTextError: (
        TextFailure(
            archive="/a\n.tar", member="b.xz", document="\x1b.txt", reason=Reason.NOT_UTF_8, detail="at byte 3"
        ),
    ),
    errors.ArchiveError: ("/a.tar", "b\n.xz", "broke"),
    errors.ArchiveChangedError: ("/a.tar", "b.xz", "broke"),
    errors.ReaderDiedError: ("/a.tar", "b.xz", "broke"),
    errors.StoreError: ("index.json", "no space left"),
    errors.ObjectExistsError: ("index.json", "exists"),
    errors.ObjectChangedError: ("index.json", "was written meanwhile"),
    errors.ObjectMissingError: ("index.json", "is not there"),
}
CLASSES = [
    each
    for _, each in inspect.getmembers(errors, inspect.isclass)
    if issubclass(each, EvenshardError) and each.__module__ == errors.__name__
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_error_is_the_same_when_pickled(kind: type[EvenshardError]) -> None:
    """Each error crosses to another process with its message and its facts."""
    error = kind(*ARGUMENTS.get(kind, ("what is wrong",)))
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made in this line
    assert (type(error), str(error), vars(error)) == (type(copy), str(copy), vars(copy))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_error_is_drawn_in_the_tree_when_it_exists(kind: type[EvenshardError]) -> None:
    """The module's docstring draws every class under its parent, with the builtin that it inherits."""
    line = next(line for line in (errors.__doc__ or "").splitlines() if kind.__name__ in line.split())
    builtin = [base.__name__ for base in kind.__bases__ if not issubclass(base, EvenshardError)]
    assert all(f"({name})" in line for name in builtin if name != "Exception")


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_message_is_one_line_when_printed(kind: type[EvenshardError]) -> None:
    """A person sees one line."""
    message = str(kind(*ARGUMENTS.get(kind, ("what is wrong",))))
    assert message
    assert "\n" not in message


def test_failure_may_pass_when_a_worker_died() -> None:
    """A dead worker is worth another try; a file that changed is not."""
    assert may_pass(WorkerDiedError(1, "died"))
    assert not may_pass(errors.SourceChangedError(1, "changed"))
