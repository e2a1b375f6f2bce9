# SPDX-License-Identifier: Apache-2.0
"""The table that says to which place in the source each unit of a code object belongs (CPython's ``Objects/locations.md``).

CPython reads it in two ways. Places are read by the form of each entry; lines by looking for the next byte with its highest bit set, and
what they fill is as long as the code. A table is read here as both at once, and is refused where they could differ.
"""

import typing

_NUMBER_MAX = (1 << 31) - 1
_BITS = 6
"""Of a number in each byte; the next one says that more follow."""
_BYTES_MAX = 6
_UNITS_MAX = 8
"""That one entry covers."""
_NOWHERE, _LONG, _LINE, _ONE_LINE = 15, 14, 13, 10
"""Forms. Below are the short ones, eight columns each."""
_SHORT_COLUMNS, _SHORT_WIDTH, _BYTE = 80, 15, 127


class Malformed(ValueError):
    """What CPython must not run; the text says why."""


class Position(typing.NamedTuple):
    """As ``co_positions`` gives it: None for what is not known."""

    line: "int | None" = None
    end_line: "int | None" = None
    column: "int | None" = None
    end_column: "int | None" = None


class Span(typing.NamedTuple):
    """Neighbouring units of one place."""

    units: int
    position: Position


def read(table: bytes, first_line: int) -> "list[Span]":
    """Malformed for what CPython could read in two ways, or not at all."""
    spans, at, line = [], 0, first_line
    while at < len(table):
        end = at + 1
        while end < len(table) and not table[end] & 128:
            end += 1
        if not table[at] & 128:
            raise Malformed("line table: an entry has no beginning")
        position, line = _read_entry(table[at] >> 3 & 15, _Bytes(table[at + 1:end]), line)
        spans.append(Span((table[at] & 7) + 1, position))
        at = end
    return spans


class _Bytes:
    """What follows the head of an entry."""

    def __init__(self, left: bytes) -> None:
        self._left, self._at = left, 0

    def byte(self) -> int:
        if self._at == len(self._left):
            raise Malformed("line table: an entry is cut short")
        self._at += 1
        return self._left[self._at - 1]

    def number(self) -> int:
        value = 0
        for i in range(_BYTES_MAX):
            one = self.byte()
            value |= (one & 63) << _BITS * i
            if not one & 64:
                if value > _NUMBER_MAX:
                    break
                return value
        raise Malformed("line table: a number is too large")

    def signed(self) -> int:
        value = self.number()
        return -(value >> 1) if value & 1 else value >> 1

    def end(self) -> None:
        if self._at != len(self._left):
            raise Malformed("line table: an entry is longer than its form")


def _read_entry(form: int, left: _Bytes, line: int) -> "tuple[Position, int]":
    """(its position, the line that the next one counts from)."""
    if form == _NOWHERE:
        position = Position()
    elif form == _LONG:
        line += left.signed()
        end_line = line + left.number()
        column, end_column = left.number() - 1, left.number() - 1
        position = Position(line, end_line, column if column >= 0 else None, end_column if end_column >= 0 else None)
    elif form == _LINE:
        line += left.signed()
        position = Position(line, line)
    elif form >= _ONE_LINE:
        line += form - _ONE_LINE
        position = Position(line, line, left.byte(), left.byte())
    else:
        rest = left.byte()
        column = form << 3 | rest >> 4
        position = Position(line, line, column, column + (rest & 15))
    left.end()
    if not 0 <= line <= (position.end_line or line) <= _NUMBER_MAX:
        raise Malformed("line table: a line that no source has")
    return position, line


def write(spans: "typing.Iterable[Span]", first_line: int) -> bytes:
    """The table of these spans, neighbours of one position joined."""
    joined: "list[Span]" = []
    for one in spans:
        is_next = joined and joined[-1].position == one.position
        joined.append(Span(joined.pop().units + one.units, one.position) if is_next else one)
    table, line = bytearray(), first_line
    for units, position in joined:
        for at in range(0, units, _UNITS_MAX):
            form, rest = _entry(position, line)
            table.append(128 | form << 3 | min(units - at, _UNITS_MAX) - 1)
            table += rest
            line = line if position.line is None else position.line
    return bytes(table)


def _entry(position: Position, line: int) -> "tuple[int, bytes]":
    """(form, what follows) of a position, the shortest that CPython has for it."""
    if position.line is None:
        return _NOWHERE, b""
    step, end_line = position.line - line, position.line if position.end_line is None else position.end_line
    column, end_column = position.column, position.end_column
    if column is None and end_line == position.line and end_column is None:
        return _LINE, _signed(step)
    if column is not None and end_column is not None and end_line == position.line:
        if step == 0 and column < _SHORT_COLUMNS and 0 <= end_column - column <= _SHORT_WIDTH:
            return column >> 3, bytes([(column & 7) << 4 | end_column - column])
        if 0 <= step <= 2 and column <= _BYTE and end_column <= _BYTE:
            return _ONE_LINE + step, bytes([column, end_column])
    known = (0 if one is None else one + 1 for one in (column, end_column))
    return _LONG, _signed(step) + _number(end_line - position.line) + b"".join(map(_number, known))


def _number(value: int) -> bytes:
    if not 0 <= value <= _NUMBER_MAX:
        raise Malformed("line table: a place that no source has")
    found = bytearray([value & 63])
    while value := value >> _BITS:
        found[-1] |= 64
        found.append(value & 63)
    return bytes(found)


def _signed(value: int) -> bytes:
    return _number(-value << 1 | 1 if value < 0 else value << 1)
