"""Documents of text archives, read by worker processes and handed out at random."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evenshard.archive_scans import scan_all, told
from evenshard.core.epoch import Epoch
from evenshard.core.errors import BadSourcesError, OptionError
from evenshard.core.texts import Archive, TextCounts
from evenshard.epochs import EpochLoader
from evenshard.text_iterator import TextIterator

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from evenshard.core.texts import TextFailure
    from evenshard.epochs import Held


class OpenWebTextLoader(EpochLoader[Epoch, TextIterator]):
    """The documents of archives like OpenWebText's: tars of packed tars of `.txt` files.

    Each `iter(loader)` is an epoch of its own, with every document once, in an order that the seed and the number
    of the epoch decide, not the workers. In how far it is random: see `evenshard.core.drawing`. Samples are
    `((i, j), (member, document), text)`: places in the outer and the inner tar, names, and the text sign for sign.

    Worker processes read members, not archives. They start with the first sample, and end with the last one, with
    the iterator, or with this process, whichever comes first. Memory is bounded by bytes, whatever the archives hold:
    64 MiB of text to draw from, 8 MiB waiting in each worker's queue, and in a worker 64 MiB of one member beside what
    its xz stream asks for, 128 MiB at most; each plus one document, of 16 MiB at most.

    Args:
        subsets: paths of the archives. An archive is not to change while it is read.
        num_workers: processes that read; with 0, this one does.
        prefetch: documents to draw the next one from. As many again may wait in each worker's queue.
        random_state: seed or generator, see `evenshard.mixing.seed_of`; None is another order in each loader.
        errors: what to do about a broken member, or a document that is broken or not UTF-8. "count" logs it, goes on
            and keeps it in `counts` and `failures`: one bad text is no reason to end a week of training. "raise"
            stops there. What is not about a text always raises: missing or changed files, a disk that does not
            read, a dead worker.

    Raises:
        OptionError: an option cannot be used.
    """

    def __init__(
        self,
        subsets: Iterable[str | os.PathLike[str]],
        num_workers: int = 1,
        prefetch: int = 2048,
        random_state: Any = None,  # noqa: ANN401 - a seed or a generator of any library
        *,
        errors: Literal["count", "raise"] = "count",
    ) -> None:
        super().__init__(num_workers, prefetch, random_state)
        if errors not in ("count", "raise"):
            raise OptionError("errors", f"{errors!r} is neither 'count' nor 'raise'")
        self.subsets = _paths(subsets)
        self.errors = errors
        self._archives: tuple[Archive, ...] | None = None
        self._num_documents: int | None = None

    def __len__(self) -> int:
        """Give the documents of an epoch, known once one was read to its end.

        Raises:
            TypeError: none was; headers of archives do not say how many documents they hold.
        """
        if self._num_documents is None:
            raise TypeError("the number of documents is known once an epoch was read to its end")
        return self._num_documents

    def __bool__(self) -> bool:
        """Say yes: that a length is not known makes it no less a loader."""
        return True

    @property
    def counts(self) -> TextCounts:
        """What became of members and documents in the epoch that began last, as far as it was read."""
        return self._latest.epoch.counts if self._latest and self._latest.epoch else TextCounts()

    @property
    def failures(self) -> tuple[TextFailure, ...]:
        """Its first thousand failures, in the order of reading; `counts` counts all."""
        return tuple(self._latest.epoch.failures) if self._latest and self._latest.epoch else ()

    def _iterate(self, held: Held[Epoch]) -> TextIterator:
        return TextIterator(
            held,
            self._learn_length,
            num_workers=self.num_workers,
            max_ahead=self.prefetch,
            stops=self.errors == "raise",
        )

    def _begin(self, number: int, state: Mapping[str, Any] | None) -> Epoch:
        """Make an epoch; the archives are looked through once for all of them."""
        if self._archives is None:
            self._archives = look_through(self.subsets)
        members = [member for archive in self._archives for member in archive.members]
        if state is None:
            epoch = Epoch(members, seed=self.seed, number=number, prefetch=self.prefetch)
        else:
            epoch = Epoch.resumed(state, members)
        if not epoch.is_begun:
            epoch.start(self._archives)
        return epoch

    def _learn_length(self, epoch: Epoch) -> None:
        self._num_documents = epoch.counts.kept


def _paths(subsets: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Make paths that stay the same wherever this process goes."""
    if isinstance(subsets, str | bytes | os.PathLike):
        raise OptionError("subsets", "give a list of archives, not one path")
    try:
        return [str(Path(subset).absolute()) for subset in subsets]
    except TypeError as error:
        raise OptionError("subsets", f"give a list of paths: {error}") from None


def look_through(paths: Sequence[str]) -> tuple[Archive, ...]:
    """Find the members of all archives.

    Raises:
        BadSourcesError: some are missing, cannot be read or are no tars: all of them at once.
    """
    found = scan_all(paths)
    problems = [(path, told(each)) for path, each in zip(paths, found, strict=True) if isinstance(each, Exception)]
    if problems:
        raise BadSourcesError(problems)
    return tuple(each for each in found if isinstance(each, Archive))
