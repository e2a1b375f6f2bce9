# SPDX-License-Identifier: Apache-2.0
"""Code objects that were put together: CPython believes each table of what it runs, so that what no compiler made is read first.

``replace`` makes one. First it reads the units, for CPython writes behind the end of some already where it makes an object or shows its code.
``check`` goes through everything else that the interpreter, a tracer or a traceback takes for granted: indices, jumps, the line table, the
exception table, and along every way through the code how deep the stack is and which slots hold a value or a cell.
"""

import bisect
import dis
import sys
import types
import typing

from ingot.breaks import line_tables
from ingot.breaks.line_tables import Malformed

_NEVER_MADE = ("CACHE", "RESERVED", "DO_TRACING", "INTERPRETER_EXIT", "ENTER_EXECUTOR", "INSTRUMENTED_")
"""Beginnings of the names of instructions that CPython alone writes."""
_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
_JUMPS_ALWAYS = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
_OPNAMES = {op: name for name, op in dis.opmap.items() if op < 256 and not name.startswith(_NEVER_MADE)}
_JUMPS, _DEREFS, _CONSTANTS = {*dis.hasjrel, *dis.hasjabs}, {*dis.hasfree}, {*dis.hasconst}
_CACHES: "typing.Any" = dis._inline_cache_entries  # type: ignore[attr-defined]
_LOADS_UNCHECKED = sys.version_info >= (3, 12)
"""``LOAD_FAST`` takes for granted that there is a value."""
_LOOPS_END_AT = ("END_FOR", "POP_TOP")[:max(0, sys.version_info.minor - 11)]
"""What has to follow where a loop is left, for CPython goes on behind it."""
_EXTENDED_MAX = 3

# What is known of a slot of the frame or of the stack.
_UNKNOWN, _VALUE, _CELL = 0, 1, 3


class Instruction(typing.NamedTuple):
    """One with the prefixes that extend its argument, and its caches."""

    start: int
    """In units, as all numbers here."""
    at: int
    end: int
    name: str
    opcode: int
    arg: int


class Handler(typing.NamedTuple):
    """An entry of the exception table: units from ``start`` to before ``end`` go on at ``target``."""

    start: int
    end: int
    target: int
    depth: int
    keeps_at: bool
    """The place of what raised lies below the exception."""


def replace(code: types.CodeType, **parts: typing.Any) -> types.CodeType:
    """One with other parts. Malformed where it is none that may run, or be."""
    instructions(parts.get("co_code", code.co_code))
    try:
        made = code.replace(**parts)
    except (ValueError, TypeError, OverflowError) as e:  # What CPython itself looks at.
        raise Malformed(f"code: {e}") from None
    check(made)
    return made


def check(code: types.CodeType) -> None:
    """Malformed where anything in it is not what CPython expects of a compiler."""
    listed = instructions(code.co_code)
    units = sum(span.units for span in line_tables.read(code.co_linetable, code.co_firstlineno))
    if units != listed[-1].end:
        raise Malformed(f"line table: it covers {units} units of {listed[-1].end}")
    _check_arguments(code, listed)
    _Walk(code, listed).run()


def instructions(text: bytes) -> "list[Instruction]":
    """Those of a whole ``co_code``, in order."""
    listed, at, units = typing.cast("list[Instruction]", []), 0, len(text) // 2
    if not text or len(text) % 2:
        raise Malformed("code: no whole units")
    while at < units:
        start, arg = at, text[2 * at + 1]
        while text[2 * at] == dis.EXTENDED_ARG:
            at += 1
            if at == units or at - start > _EXTENDED_MAX:
                raise Malformed("code: a prefix without an instruction")
            arg = arg << 8 | text[2 * at + 1]
        opcode = text[2 * at]
        name = _OPNAMES.get(opcode)
        if name is None or arg >= 1 << 31:
            raise Malformed(f"code: the instruction {opcode} at {at}")
        end = at + 1 + (_CACHES.get(name, 0) if isinstance(_CACHES, dict) else _CACHES[opcode])
        if end > units or any(text[2 * (at + 1):2 * end]):
            raise Malformed(f"code: caches of {name} at {at}")
        listed.append(Instruction(start, at, end, name, opcode, arg))
        at = end
    return listed


class Handlers:
    """The exception table."""

    def __init__(self, code: types.CodeType) -> None:
        """Malformed where CPython would not find in it what stands there."""
        table, self._units = iter(code.co_exceptiontable), len(code.co_code) // 2
        self._entries: "list[Handler]" = []
        for first in table:
            start, length, target, depth = _number(first, table, True), *(_number(next(table, 128), table, False) for _ in range(3))
            if not length or start + length > self._units or target >= self._units:
                raise Malformed(f"exception table: from {start} to {start + length}, and on at {target}, of {self._units} units")
            if self._entries and start < self._entries[-1].end:
                raise Malformed(f"exception table: two entries at {start}")
            self._entries.append(Handler(start, start + length, target, depth >> 1, bool(depth & 1)))
        self._starts = [one.start for one in self._entries]

    def of(self, at: int) -> "Handler | None":
        """Of what is raised by the instruction at a unit."""
        i = bisect.bisect_right(self._starts, at) - 1
        return self._entries[i] if i >= 0 and at < self._entries[i].end else None


def exception_table(handlers: "typing.Iterable[Handler]") -> bytes:
    """The table of these, which are in order."""
    table = bytearray()
    for one in handlers:
        for i, value in enumerate((one.start, one.end - one.start, one.target, one.depth << 1 | one.keeps_at)):
            digits = [value >> shift & 63 for shift in range(24, -1, -6) if value >> shift or not shift]
            table += bytes(digit | 64 for digit in digits[:-1]) + bytes(digits[-1:])
            if i == 0:
                table[-len(digits)] |= 128
    return bytes(table)


def _number(byte: int, table: "typing.Iterator[int]", begins_entry: bool) -> int:
    value = 0
    while True:
        if bool(byte & 128) != begins_entry or value >= 1 << 25:
            raise Malformed("exception table: no whole entries")
        value = value << 6 | byte & 63
        if not byte & 64:
            return value
        byte, begins_entry = next(table, 128), False


def _check_arguments(code: types.CodeType, listed: "list[Instruction]") -> None:
    """``dis`` looks up what each argument stands for."""
    try:
        found = [one for one in dis.get_instructions(code) if one.opname != "EXTENDED_ARG"]
        _ = [code.co_consts[one.arg] for one in listed if one.opcode in _CONSTANTS]  # Python 3.11 looks up some of these alone.
    except (IndexError, ValueError, RuntimeError, KeyError) as e:
        raise Malformed(f"code: an argument that stands for nothing: {e}") from None
    if [(one.offset // 2, one.opname) for one in found] != [(one.at, one.name) for one in listed]:
        raise Malformed("code: instructions that are not listed alike")
    shared = {*code.co_cellvars, *code.co_freevars}
    for one in found:
        if one.opcode in _DEREFS and one.argval not in shared:
            raise Malformed(f"code: {one.opname} of {one.argval}, which is no cell")
        if one.opname == "COPY_FREE_VARS" and one.arg != len(code.co_freevars):
            raise Malformed(f"code: {one.arg} variables from outside, of {len(code.co_freevars)}")
        if one.opname == "KW_NAMES" and type(code.co_consts[typing.cast(int, one.arg)]) is not tuple:
            raise Malformed("code: names of arguments that are no names")


class _State(typing.NamedTuple):
    """Before an instruction."""

    stack: "tuple[int, ...]"
    slots: "tuple[int, ...]"

    def meet(self, other: "_State") -> "_State":
        """What is known on both ways."""
        return _State(tuple(map(int.__and__, self.stack, other.stack)), tuple(map(int.__and__, self.slots, other.slots)))


class _Walk:
    """All ways through the code."""

    def __init__(self, code: types.CodeType, listed: "list[Instruction]") -> None:
        self._code, self._listed, self._handlers = code, listed, Handlers(code)
        self._starts = {one.start: i for i, one in enumerate(listed)}
        self._states: "dict[int, _State]" = {}
        names = list(code.co_varnames) + [name for name in code.co_cellvars if name not in code.co_varnames]
        self._free, self._slots = len(names), len(names) + len(code.co_freevars)

    def run(self) -> None:
        code = self._code
        given = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        todo = [(0, _State((), (_VALUE,) * given + (_UNKNOWN,) * (self._slots - given)))]
        while todo:
            i, state = todo.pop()
            known = self._states.get(i)
            if known is not None:
                if len(known.stack) != len(state.stack):
                    raise Malformed(f"code: stacks of {len(known.stack)} and of {len(state.stack)} at {self._listed[i].at}")
                state = known.meet(state)
                if state == known:
                    continue
            self._states[i] = state
            todo += self._following(i, state)
        if not any(self._listed[i].name == "RESUME" for i in self._states):
            raise Malformed("code: it never begins")

    def _following(self, i: int, state: _State) -> "typing.Iterator[tuple[int, _State]]":
        one = self._listed[i]
        slots = self._slots_after(one, state)
        depths = [len(state.stack)]
        if one.name in ("RETURN_VALUE", "RETURN_CONST") and len(state.stack) != (one.name == "RETURN_VALUE"):
            raise Malformed(f"code: it returns over {len(state.stack)} on the stack, at {one.at}")
        for to, jumps in self._successors(i):
            stack = self._stack_after(one, state, jumps)
            depths.append(len(stack))
            yield to, _State(stack, slots)
        if one.name in _ENDS:
            depths.append(len(self._stack_after(one, state, False)))
        handler = self._handlers.of(one.at)
        if handler is not None:
            if handler.depth > min(depths):
                raise Malformed(f"exception table: {handler.depth} stay on a stack of {min(depths)}, at {one.at}")
            # Before or after it has written: what is known of both.
            kept = tuple(map(int.__and__, state.slots, slots))
            depths.append(handler.depth + handler.keeps_at + 1)
            yield self._number(handler.target), _State(state.stack[:handler.depth] + (_VALUE,) * (handler.keeps_at + 1), kept)
        if max(depths) > self._code.co_stacksize:
            raise Malformed(f"code: {max(depths)} on a stack of {self._code.co_stacksize}, at {one.at}")

    def _successors(self, i: int) -> "typing.Iterator[tuple[int, bool]]":
        one = self._listed[i]
        if one.opcode in _JUMPS:
            to = self._number(one.end - one.arg if "BACKWARD" in one.name else one.end + one.arg)
            behind = tuple(after.name for after in self._listed[to:to + len(_LOOPS_END_AT)])
            if one.name == "FOR_ITER" and behind != _LOOPS_END_AT:
                raise Malformed(f"code: a loop ends at {behind}")
            yield to, True
        if one.name not in _ENDS and one.name not in _JUMPS_ALWAYS:
            if i + 1 == len(self._listed):
                raise Malformed("code: it has no end")
            yield i + 1, False

    def _number(self, at: int) -> int:
        if at not in self._starts:
            raise Malformed(f"code: no instruction begins at {at}")
        return self._starts[at]

    def _stack_after(self, one: Instruction, state: _State, jumps: bool) -> "tuple[int, ...]":
        stack = state.stack
        effect = dis.stack_effect(one.opcode, one.arg if one.opcode >= dis.HAVE_ARGUMENT else None, jump=jumps)
        # Whoever sends the first value to a generator puts it there.
        depth = len(stack) + (1 if one.name == "RETURN_GENERATOR" else effect)
        if depth < 0 or one.name in ("SWAP", "COPY") and not 1 <= one.arg <= len(stack):
            raise Malformed(f"code: {one.name} takes more from the stack than there is, at {one.at}")
        if one.name == "LOAD_FAST_AND_CLEAR":
            return (*stack, state.slots[one.arg])
        if one.name == "COPY":
            return (*stack, stack[-one.arg])
        if one.name == "SWAP":
            swapped = list(stack)
            swapped[-1], swapped[-one.arg] = swapped[-one.arg], swapped[-1]
            return tuple(swapped)
        return stack[:depth] + (_VALUE,) * (depth - len(stack))

    def _slots_after(self, one: Instruction, state: _State) -> "tuple[int, ...]":
        """Malformed where it needs what is not there."""
        slots, name = list(state.slots), one.name
        if name == "MAKE_CELL":
            slots[one.arg] = _CELL
        elif name == "COPY_FREE_VARS":
            slots[self._free:] = [_CELL] * one.arg
        elif name == "LOAD_FAST_AND_CLEAR":
            slots[one.arg] = _UNKNOWN
        elif "DEREF" in name:
            if slots[one.arg] != _CELL:
                raise Malformed(f"code: {name} where no cell is, at {one.at}")
        elif "FAST" in name:
            self._move(one, state.stack, slots)
        return tuple(slots)

    @staticmethod
    def _move(one: Instruction, stack: "tuple[int, ...]", slots: "list[int]") -> None:
        parts = one.name.split("_FAST")
        # Two at a time have half of the argument each.
        indices = [one.arg] if len(parts) == 2 else [one.arg >> 4, one.arg & 15]
        taken = 0
        for index, part in zip(indices, parts):
            if index >= len(slots):
                raise Malformed(f"code: {one.name} of a slot that is not there, at {one.at}")
            if part.endswith("STORE"):
                taken += 1
                if taken > len(stack):
                    raise Malformed(f"code: {one.name} takes more from the stack than there is, at {one.at}")
                slots[index] = stack[-taken]
            elif part.endswith("DELETE"):
                slots[index] = _UNKNOWN
            elif _LOADS_UNCHECKED and not slots[index] and parts[-1] != "_CHECK":
                raise Malformed(f"code: {one.name} of what may not be there, at {one.at}")
            elif slots[index] == _UNKNOWN:
                slots[index] = _VALUE  # Else it has raised.
