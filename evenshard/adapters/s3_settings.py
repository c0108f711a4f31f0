"""How S3 is reached by what is done here and now; without boto3, which takes a second to import."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from evenshard.core.s3_place import S3Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

_IN_FORCE: Final[ContextVar[S3Settings]] = ContextVar("_IN_FORCE", default=S3Settings())  # noqa: B039 - frozen


def s3_settings() -> S3Settings:
    """Give the settings in force; threads of one's own do not inherit them, and are handed them."""
    return _IN_FORCE.get()


@contextmanager
def reaching_s3(settings: S3Settings) -> Iterator[None]:
    """Have S3 reached in this way while the context lasts."""
    token = _IN_FORCE.set(settings)
    try:
        yield
    finally:
        _IN_FORCE.reset(token)
