"""The store behind an address."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from evenshard.adapters.local_store import LocalStore
from evenshard.adapters.s3_settings import s3_settings
from evenshard.core.errors import OptionError
from evenshard.core.s3_place import SCHEME
from evenshard.core.source_address import scheme_of, shown

if TYPE_CHECKING:
    from evenshard.core.s3_place import S3Settings
    from evenshard.core.store import Store


def open_store(address: str) -> Store:
    """Open the data set folder at an address; it need not exist, but for the bucket of one in S3.

    Raises:
        OptionError: there is something else, or no such kind of store; or the bucket cannot be used.
        StoreError: nobody can say whether it can.
    """
    if scheme_of(address) == SCHEME:
        return _s3_store(address, s3_settings())
    if "://" in address:
        raise OptionError("destination", f"{shown(address)}: data sets are written to folders and s3:// addresses only")
    try:
        address.encode()
        is_file = Path(address).exists() and not Path(address).is_dir()
    except (OSError, ValueError) as error:  # such as a name that is too long, or is no UTF-8
        problem = f"{address[:100]} cannot be a folder's name: {error.__class__.__name__}"
        raise OptionError("destination", problem) from error
    if is_file:
        raise OptionError("destination", f"{address} is a file; give a folder")
    return LocalStore(address)


@lru_cache(maxsize=16)
def _s3_store(address: str, settings: S3Settings) -> Store:
    """Make a store once in a process: it looks then whether the bucket is there."""
    from evenshard.adapters.s3_store import S3Store  # noqa: PLC0415 - boto3 takes a second that folders need not wait

    store = S3Store(address, settings)
    store.check()
    return store


def forget_stores() -> None:
    """Have stores in S3 made anew, and looked at again."""
    _s3_store.cache_clear()
