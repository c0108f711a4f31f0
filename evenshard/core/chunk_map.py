"""Where the column chunks of a Parquet file lie, read from its footer.

pyarrow tells it too, but ends the process where the footer's statistics do not fit its schema (26.0.1), which
no caller can catch; so the few numbers that are needed are picked out here.

Source: parquet.thrift (FileMetaData 4 row_groups; RowGroup 1 columns; ColumnChunk 3 meta_data; ColumnMetaData
7 total_compressed_size, 9 data_page_offset, 11 dictionary_page_offset), and Thrift's compact protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenshard.core.intervals import Interval

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_NUMBERS: Final = frozenset({4, 5, 6})
"""16, 32 and 64 bits, all written as zigzag numbers."""

MAX_DEPTH: Final = 16
"""Footers nest half as deep."""


def read_chunk_map(footer: bytes) -> list[list[Interval]]:
    """Give the byte range of each column chunk, by row group and in the order of the columns.

    Raises:
        ValueError: it is no footer.
    """
    try:
        return _FooterReader(footer).row_groups()
    except (IndexError, RecursionError) as error:
        raise ValueError("its footer is damaged: it ends within a value") from error


class _FooterReader:
    """Walks through a footer from its start."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def row_groups(self) -> list[list[Interval]]:
        found: list[list[Interval]] = []
        for number, kind in self._fields():
            if number == 4:
                found = [self._row_group() for _ in self._items(kind)]
            else:
                self._skip(kind)
        return found

    def _row_group(self) -> list[Interval]:
        found: list[Interval] = []
        for number, kind in self._fields():
            if number == 1:
                found = [self._chunk() for _ in self._items(kind)]
            else:
                self._skip(kind)
        return found

    def _chunk(self) -> Interval:
        found = (0, 0)
        for number, kind in self._fields():
            if number == 3 and kind == _STRUCT:
                found = self._range()
            else:
                self._skip(kind)
        return found

    def _range(self) -> Interval:
        numbers: dict[int, int] = {}
        for number, kind in self._fields():
            if kind in _NUMBERS:
                numbers[number] = self._zigzag()
            else:
                self._skip(kind)
        offsets = [numbers[number] for number in (9, 11) if numbers.get(number, 0) > 0]
        start = min(offsets, default=0)
        return start, start + numbers.get(7, 0)

    def _fields(self) -> Iterator[tuple[int, int]]:
        """Give number and kind of each field of a struct; its value is to be read before the next is asked for."""
        number = 0
        while head := self._byte():
            delta, kind = head >> 4, head & 0x0F
            number = number + delta if delta else self._zigzag()
            yield number, kind

    def _items(self, kind: int) -> range:
        """Give one step for each struct of a list; each is to be read in it."""
        if kind != _LIST:
            raise ValueError("its footer is damaged: no list where one should be")
        size, inner = self._list_head()
        if inner != _STRUCT or size > len(self._data):
            raise ValueError("its footer is damaged: no list of structs where one should be")
        return range(size)

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        size = head >> 4
        return self._varint() if size == 15 else size, head & 0x0F

    def _skip(self, kind: int, depth: int = 0) -> None:
        if depth > MAX_DEPTH:
            raise ValueError("its footer is damaged: it nests too deep")
        if kind in _NUMBERS:
            self._varint()
        elif kind in {_BYTE, _DOUBLE}:
            self._at += 1 if kind == _BYTE else 8
        elif kind == _BINARY:
            size = self._varint()
            self._at += size
        elif kind == _STRUCT:
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        elif kind in {_LIST, _SET}:
            self._skip_items(*self._list_head(), depth)
        elif kind not in {_TRUE, _FALSE}:  # those have no value; maps are in no footer
            raise ValueError(f"its footer is damaged: a field of kind {kind}")

    def _skip_items(self, size: int, kind: int, depth: int) -> None:
        if size > len(self._data):
            raise ValueError("its footer is damaged: a list longer than itself")
        for _ in range(size):
            self._skip(_BYTE if kind in {_TRUE, _FALSE} else kind, depth + 1)

    def _byte(self) -> int:
        value = self._data[self._at]
        self._at += 1
        return value

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("its footer is damaged: a number beyond 64 bits")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
