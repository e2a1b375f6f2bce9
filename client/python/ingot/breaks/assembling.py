# SPDX-License-Identifier: Apache-2.0
"""Code objects made of instructions. The library ``bytecode`` resolves labels, names and constants; what it gives is not believed.

Its line table is not used (0.19.1 writes columns from 128 on so that CPython counts more units than there are), nor are its instructions on
two variables at once (Python 3.13; it gives each half a number that may not fit). What is made is checked, and read again by CPython's
``dis``: each instruction, each jump and each handler has to be what was put in.
"""

import dis
import sys
import types
import typing

from bytecode import Bytecode, ConcreteInstr, Instr, Label
from bytecode.instr import UNSET, CellVar, FreeVar, TryBegin, TryEnd

from ingot.breaks import code_objects, line_tables
from ingot.breaks.code_objects import Handler
from ingot.breaks.line_tables import Malformed, Position, Span

_TWO_AT_A_TIME = {"LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"), "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
                  "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST")}
_JUMPS, _CONSTANTS, _NAMES = {*dis.hasjrel, *dis.hasjabs}, {*dis.hasconst}, {*dis.hasname}
_VARIABLES = {*dis.haslocal, *dis.hasfree}
_FLAGS = {"LOAD_GLOBAL": 2, "LOAD_ATTR": 2 if sys.version_info >= (3, 12) else 1, "LOAD_SUPER_ATTR": 4}
"""Of instructions whose argument is more than the number of a name: how many it counts for each name."""


class Constant:
    """Equal to what no run can tell from it."""

    def __init__(self, value: typing.Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and _is_same(self.value, other.value)

    def __hash__(self) -> int:
        return hash(type(self.value))

    def __repr__(self) -> str:
        return repr(self.value)


def _is_same(one: typing.Any, other: typing.Any) -> bool:
    if one is other or type(one) is not type(other):
        return one is other
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, frozenset):
        return len(one) == len(other) and all(any(_is_same(a, b) for b in other) for a in one)
    return repr(one) == repr(other) if isinstance(one, (float, complex)) else isinstance(one, (int, str, bytes)) and one == other


class Read(typing.NamedTuple):
    """What ``dis`` says of one instruction."""

    name: str
    at: int
    """Its offset."""
    target: "int | None"
    """The offset of where it jumps to."""
    meaning: typing.Any
    """What it is about, in whatever code object it stands."""


def read(code: types.CodeType) -> "list[Read]":
    """All instructions, in order."""
    return [_read(one, code) for one in dis.get_instructions(code) if one.opname not in ("EXTENDED_ARG", "CACHE")]


def _read(one: dis.Instruction, code: types.CodeType) -> Read:
    arg: typing.Any = one.arg
    meaning = one.argval if one.opcode in _VARIABLES else arg
    if one.opcode in _CONSTANTS:
        meaning = Constant(code.co_consts[arg])
    elif one.opcode in _NAMES:
        meaning = one.argval, arg % _FLAGS.get(one.opname, 1)
    jumps = one.opcode in _JUMPS
    return Read(one.opname, one.offset, one.argval if jumps else None, None if jumps else meaning)


def take_apart(code: types.CodeType) -> "tuple[Bytecode, list[Read]]":
    """The instructions of a function, and what ``dis`` says of each. Malformed where the two are not alike."""
    code_objects.check(code)
    try:
        body = Bytecode.from_code(code, conserve_exception_block_stackdepth=True)
    except Exception as e:  # Of a library that asserts what it does not expect.
        raise Malformed(f"code: it is not taken apart: {type(e).__name__} {e}") from e
    listed = read(code)
    if [one.name for one in listed] != [one.name for one in body if isinstance(one, Instr)]:
        raise Malformed("code: instructions that are not listed alike")
    return body, listed


def assemble(body: Bytecode, code: types.CodeType, stack_size: int, known: "typing.Mapping[int, Read]") -> types.CodeType:
    """A piece of ``code``. ``known`` says, by identity, what ``dis`` says of each instruction that comes from there. Malformed where it
    cannot be made."""
    body[:] = [part for one in body for part in _one_at_a_time(one, known)]
    try:
        concrete = body.to_concrete_bytecode(compute_exception_stack_depths=False)
        units = [(one.assemble(), _position(one)) for one in concrete if isinstance(one, ConcreteInstr)]
        parts = {f"co_{name}": getattr(concrete, name) for name in ("argcount", "posonlyargcount", "kwonlyargcount")}
        parts |= {f"co_{name}": tuple(getattr(concrete, name)) for name in ("consts", "names", "varnames", "freevars", "cellvars")}
        handlers = [Handler(one.start_offset, one.stop_offset + 1, one.target, one.stack_depth, one.push_lasti) for one in concrete.exception_table]
    except Exception as e:
        raise Malformed(f"code: it is not put together: {type(e).__name__} {e}") from e
    lines = line_tables.write([Span(len(text) // 2, position) for text, position in units], code.co_firstlineno)
    made = code_objects.replace(code, co_code=b"".join(text for text, _ in units), co_stacksize=stack_size, co_nlocals=len(concrete.varnames),
                                co_flags=int(concrete.flags), co_linetable=lines, co_exceptiontable=code_objects.exception_table(handlers), **parts)
    _Put(body, known).check(made)
    return made


def _position(one: ConcreteInstr) -> Position:
    where = one.location
    return Position() if where is None else Position(where.lineno, where.end_lineno, where.col_offset, where.end_col_offset)


def _one_at_a_time(one: typing.Any, known: "typing.Mapping[int, Read]") -> "list[typing.Any]":
    names = _TWO_AT_A_TIME.get(one.name) if isinstance(one, Instr) else None
    return [one] if names is None else [Instr(name, arg, location=one.location) for name, arg in zip(names, known[id(one)].meaning)]


def _meant(one: Instr) -> typing.Any:
    """``Read.meaning`` of one that was added."""
    arg = one.arg
    if isinstance(arg, Label) or arg is UNSET:
        return None
    if one.opcode in _CONSTANTS:
        return Constant(arg)
    if one.opcode in _NAMES:
        return (arg[1], int(arg[0])) if isinstance(arg, tuple) else (arg, 0)
    return arg.name if isinstance(arg, (CellVar, FreeVar)) else arg


class _Put:
    """What was put in, to be found again."""

    def __init__(self, body: Bytecode, known: "typing.Mapping[int, Read]") -> None:
        self._known = known
        self._put: "list[tuple[Instr, TryBegin | None]]" = []
        self._number_of: "dict[int, int]" = {}
        """Of the instruction behind a label."""
        guard: "TryBegin | None" = None
        for one in body:
            if isinstance(one, Label):
                self._number_of[id(one)] = len(self._put)
            elif isinstance(one, (TryBegin, TryEnd)):
                guard = one if isinstance(one, TryBegin) else None
            elif isinstance(one, Instr):
                self._put.append((one, guard))

    def check(self, code: types.CodeType) -> None:
        """Malformed where something else is read."""
        listed, handlers = read(code), code_objects.Handlers(code)
        if len(self._put) != len(listed):
            raise Malformed(f"code: {len(listed)} instructions of {len(self._put)}")
        number_at = {one.start: i for i, one in enumerate(code_objects.instructions(code.co_code))}
        for (put, guard), found in zip(self._put, listed):
            known = self._known.get(id(put))
            if (found.name, found.meaning) != (put.name, _meant(put) if known is None else known.meaning):
                raise Malformed(f"code: {put.name} {put.arg} became {found.name} {found.meaning}")
            if isinstance(put.arg, Label) and number_at.get(typing.cast(int, found.target) // 2) != self._number_of[id(put.arg)]:
                raise Malformed(f"code: {put.name} goes elsewhere")
            handler = handlers.of(found.at // 2)
            wanted = None if guard is None else (self._number_of[id(guard.target)], guard.stack_depth, guard.push_lasti)
            if wanted != (None if handler is None else (number_at.get(handler.target), handler.depth, handler.keeps_at)):
                raise Malformed(f"exception table: {put.name} is handled elsewhere")
