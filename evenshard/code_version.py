"""Which version of a callable this is: a hash of its source and its state, the same in every process."""

from __future__ import annotations

import hashlib
import inspect
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable


def version_of(transform: object) -> str:
    """Hash a callable's source file and, of an instance, its state, so that a plan notices when either has changed.

    What the code imports from elsewhere is not looked at, nor what an object keeps outside Python, such as
    whether a lock is held. Empty for the built-in transforms.
    """
    if transform is None:
        return ""
    return hashlib.sha256(_written(transform, ()).encode("utf-8", "replace")).hexdigest()


def _written(value: Any, above: tuple[int, ...]) -> str:  # noqa: ANN401 - whatever a callable holds
    """Write a value so that equal ones are written equally in every process: no address, no order of a set.

    Args:
        value: a callable, or what one holds.
        above: ids of the values that hold it, since some hold themselves.
    """
    if isinstance(value, (str, bytes, int, float, complex, type(None))):
        return repr(value)
    if id(value) in above:
        return "..."
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    return f"{name}({_joined(_parts(value), (*above, id(value)))})"


def _parts(value: Any) -> Iterable[object]:  # noqa: ANN401 - see above
    """Give what makes a value what it is."""
    match value:
        case dict():
            return [part for item in value.items() for part in item]
        case list() | tuple() | set() | frozenset():
            return value
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):  # an array
        return str(value.dtype), getattr(value, "shape", ()), hashlib.sha256(value.tobytes()).hexdigest()
    return _code_parts(value) if callable(value) else (_source_of(type(value)), getattr(value, "__dict__", {}))


def _code_parts(value: Any) -> Iterable[object]:  # noqa: ANN401 - see above
    if isinstance(value, partial):
        return value.func, value.args, value.keywords
    if inspect.ismethod(value):
        return value.__func__, value.__self__
    if inspect.isfunction(value):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return _source_of(value), value.__qualname__, cells, value.__defaults__, value.__kwdefaults__
    if inspect.isroutine(value) or inspect.isclass(value):
        return _source_of(value), value.__qualname__
    return _source_of(type(value)), getattr(value, "__dict__", {})


def _joined(parts: Iterable[object], above: tuple[int, ...]) -> str:
    written = [_written(part, above) for part in parts]
    return ",".join(sorted(written) if isinstance(parts, (set, frozenset)) else written)


def _source_of(defined: object) -> str:
    try:
        file = inspect.getsourcefile(cast("type", defined))
    except TypeError:  # built in, or typed at a prompt
        return ""
    return Path(file).read_text("utf-8", "replace") if file and Path(file).is_file() else ""
