"""Values as JSON text and back: plans, receipts and manifests as they are stored."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

if TYPE_CHECKING:
    from collections.abc import Hashable

_Value = TypeVar("_Value")


OMITTED: Final = {"omitted_if_none": True}
"""Metadata of a dataclass field that came later: without a value it is not written, and hashes stay as they were."""


def to_json(value: object, *, indent: int | None = None) -> bytes:
    """Write a value so that equal values give equal bytes: sorted keys, UTF-8, a line break at the end.

    Args:
        value: a dataclass, or plain lists, dicts and numbers.
        indent: blanks per level for files that people open.
    """
    plain = _plain(value)
    return (json.dumps(plain, sort_keys=True, ensure_ascii=False, indent=indent, allow_nan=False) + "\n").encode()


def from_json(kind: type[_Value], data: bytes) -> _Value:
    """Read a value back, checking every type in it.

    Raises:
        ValueError: not JSON, or not of this shape; the message says where.
    """
    try:
        value: _Value = _adapter(cast("Hashable", kind)).validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole text"
        raise ValueError(f"not a {kind.__name__}: {where}: {first['msg']}") from None
    return value


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - any type can be read back
    return TypeAdapter(kind)


def _plain(value: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (each for each in dataclasses.fields(value) if each.init)
        named = ((each, getattr(value, each.name)) for each in fields)
        return {each.name: _plain(own) for each, own in named if own is not None or each.metadata != OMITTED}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value
