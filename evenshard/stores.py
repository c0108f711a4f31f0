"""The store behind an address."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evenshard.adapters.local_store import LocalStore
from evenshard.core.errors import OptionError

if TYPE_CHECKING:
    from evenshard.core.store import Store


def open_store(address: str) -> Store:
    """Open the data set folder at an address; it need not exist.

    Raises:
        OptionError: there is something else, or no such kind of store.
    """
    if "://" in address:
        raise OptionError("destination", f"{address}: only folders are written to yet, no addresses of this kind")
    try:
        address.encode()
        is_file = Path(address).exists() and not Path(address).is_dir()
    except (OSError, ValueError) as error:  # such as a name that is too long, or is no UTF-8
        problem = f"{address[:100]} cannot be a folder's name: {error.__class__.__name__}"
        raise OptionError("destination", problem) from error
    if is_file:
        raise OptionError("destination", f"{address} is a file; give a folder")
    return LocalStore(address)
