"""Where source files are read from: this machine's folders, or addresses."""

from __future__ import annotations

import atexit
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from evenshard.adapters.at_hand import AtHand, local_source, look_at
from evenshard.adapters.http_file import HttpFile
from evenshard.adapters.ranged import FileFacts, StandIn, StandIns
from evenshard.adapters.s3_settings import s3_settings
from evenshard.adapters.source_files import find_files
from evenshard.core.s3_place import SCHEME
from evenshard.core.source_address import SCHEMES, origin_of, scheme_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from evenshard.adapters.ranged import Ranged
    from evenshard.adapters.source_files import SourceFile
    from evenshard.core.plan import Source
    from evenshard.core.s3_place import S3Settings

_STAND_INS: Final = StandIns()
"""Those of this process: what is fetched for one slice is there for the next."""
atexit.register(_STAND_INS.close)


@contextmanager
def reach_file(file: SourceFile, *, s3: S3Settings | None = None) -> Iterator[AtHand]:
    """Have a file at hand that is to be planned.

    Args:
        file: which.
        s3: how S3 is reached, where the settings in force are not known, as in other threads.

    Raises:
        OSError, UnreachableError: it cannot be had.
    """
    if scheme_of(file.path) is None:
        yield look_at(file.path)
        return
    made = StandIn(_ranged(file.path, login=file.login, facts=file.facts, s3=s3), file.facts)
    with _STAND_INS.lent((file.path, made.facts), made) as stand_in:
        yield AtHand(path=stand_in.path, facts=stand_in.facts, fetch=stand_in.fetch)


@contextmanager
def reach_source(
    source: Source, *, logins: Sequence[tuple[str, str]] = (), s3: S3Settings | None = None
) -> Iterator[AtHand]:
    """Have a planned file at hand.

    Args:
        source: the file, as it was when planned.
        logins: `user:password` by scheme, host and port.
        s3: as for `reach_file`.

    Raises:
        FileChangedError: it is not the one that was planned, or is gone.
        UnreachableError: it cannot be had now.
    """
    if scheme_of(source.path) is None:
        with local_source(source) as at_hand:
            yield at_hand
        return
    facts = FileFacts(num_bytes=source.num_bytes, version=source.version)
    file = _ranged(source.path, login=dict(logins).get(origin_of(source.path)), facts=facts, s3=s3)
    with _STAND_INS.lent((source.path, facts), StandIn(file, facts)) as stand_in:
        yield AtHand(path=stand_in.path, facts=facts, fetch=stand_in.fetch)


def _ranged(path: str, *, login: str | None, facts: FileFacts | None, s3: S3Settings | None) -> Ranged:
    """Give the file at an address, of whatever kind."""
    if scheme_of(path) == SCHEME:
        from evenshard.adapters.s3_file import S3File  # noqa: PLC0415 - boto3 takes a second

        return S3File(path, s3 or s3_settings(), facts=facts)
    return HttpFile(path, login=login, facts=facts)


def logins_of(source: str | Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Give the logins that addresses were given with, which belong into no plan.

    Raises:
        OptionError: one is no address.
    """
    named = [source] if isinstance(source, str) else source
    files = [file for each in named if scheme_of(each) in SCHEMES for file in find_files(each)]
    return tuple(sorted({(origin_of(file.path), file.login) for file in files if file.login is not None}))
