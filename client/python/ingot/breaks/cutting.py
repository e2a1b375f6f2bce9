# SPDX-License-Identifier: Apache-2.0
"""Functions cut between their statements: a piece runs from one place to the next, and gives back the variables that are needed there.

A place is an instruction before which nothing lies on the stack but the iterators of loops around it. There a run can stop, and go on in
another function, made of the same instructions. What is not understood is not cut: ``NotCuttable`` says why.
"""

import inspect
import sys
import types
import typing

from bytecode import Bytecode, Instr, Label
from bytecode.instr import CellVar, FreeVar, TryBegin, TryEnd

from ingot.breaks import assembling
from ingot.breaks.line_tables import Malformed

_TRUNK = ("COPY_FREE_VARS", "MAKE_CELL", "RESUME")
"""With which a function begins."""
_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
_LOOKS_AT_FRAME = ("super", "locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "stack", "getouterframes")
"""Names of what sees more of the function that calls it than its arguments."""
BEGIN = -1
"""Of the function itself, among places."""
_WITHOUT_RESULT = ("POP_TOP", "POP_JUMP", "STORE_", "DELETE_", "JUMP_", "END_FOR", "FOR_ITER", "NOP", "RESUME", "NOT_TAKEN")
_FOLDED = ("<listcomp>", "<setcomp>", "<dictcomp>")
"""Functions that are done when the statement is that makes them."""


class NotCuttable(Exception):
    """A function that is run as a whole; the text says why."""


class Place(typing.NamedTuple):
    """Where a run may stop and go on."""

    at: int
    """Number of the instruction that comes next."""
    loops: "tuple[int, ...]"
    """The loops around it, by the instruction that makes the iterator; outermost first."""
    needed: "tuple[str, ...]"
    """Variables that are read before they are written, sorted."""


class Cuttable:
    """The places of one function, and pieces of it."""

    def __init__(self, code: types.CodeType) -> None:
        if sys.version_info >= (3, 14):
            raise NotCuttable("instructions of a Python that nobody has looked at")
        if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            raise NotCuttable("a generator or coroutine")
        looks = {*_LOOKS_AT_FRAME} & {*code.co_names} - ({"super"} if "__class__" not in code.co_freevars else set())
        if looks:
            raise NotCuttable(f"{min(looks)} looks at the frame")
        try:
            self._whole, listed = assembling.take_apart(code)
        except Malformed as e:
            raise NotCuttable(str(e)) from e
        self._instructions = [one for one in self._whole if isinstance(one, Instr)]
        self._known = {id(one): read for one, read in zip(self._instructions, listed)}
        self._offsets, self._code = [one.at for one in listed], code
        self._check_inner(code)
        self._between: "dict[int, frozenset[int]]" = {}
        self._flow()
        self._variables(code)
        self.places = {i: Place(i, typing.cast("tuple[int, ...]", stack), tuple(sorted(self._live[i])))
                       for i, stack in self._stacks.items() if self._is_place(i, stack)}

    def _check_inner(self, code: types.CodeType) -> None:
        """Variables that inner functions share are handed on by value: nobody else may hold them."""
        for one in _made_in(code):
            if set(one.co_freevars) & set(code.co_cellvars):
                raise NotCuttable(f"{one.co_name} shares its variables")

    # -- how a run goes ------------------------------------------------------------------------------------

    def _flow(self) -> None:
        """Which instructions follow which, what lies on the stack before each of those that are reached without an exception:
        the number of the instruction that made an iterator, or None for anything else."""
        number_of: "dict[int, int]" = {}  # of the instruction behind a label, by identity of the label
        labels: "list[Label]" = []
        at = 0
        self._guarded: "list[list[TryBegin]]" = []
        open_guards: "list[TryBegin]" = []
        for one in self._whole:
            if isinstance(one, Label):
                labels.append(one)
            elif isinstance(one, TryBegin):
                open_guards = [*open_guards, one]
            elif isinstance(one, TryEnd):
                open_guards = [guard for guard in open_guards if guard is not one.entry]
            elif isinstance(one, Instr):
                number_of.update((id(label), at) for label in labels)
                labels.clear()
                self._guarded.append(open_guards)
                at += 1
        self._number_of = number_of
        self._stacks: "dict[int, tuple[int | None, ...]]" = {}
        todo: "list[tuple[int, tuple[int | None, ...]]]" = [(0, ())]
        while todo:
            i, stack = todo.pop()
            if i in self._stacks:
                if len(self._stacks[i]) != len(stack):
                    raise NotCuttable("a stack of two depths")
                if self._stacks[i] == stack:
                    continue
                # What differs is nothing that is known.
                stack = tuple(a if a == b else None for a, b in zip(self._stacks[i], stack))
                if self._stacks[i] == stack:
                    continue
            self._stacks[i] = stack
            todo += [(to, self._after(i, stack, jumps)) for to, jumps in self.successors(i)]

    def successors(self, i: int) -> "list[tuple[int, bool]]":
        """(number, whether by a jump) of the instructions that may come next, exceptions apart."""
        one = self._instructions[i]
        found = []
        if isinstance(one.arg, Label):
            found.append((self._number_of[id(one.arg)], True))
        if not one.is_uncond_jump() and one.name not in _ENDS:
            found.append((i + 1, False))
        return found

    def _after(self, i: int, stack: "tuple[int | None, ...]", jumps: bool) -> "tuple[int | None, ...]":
        one = self._instructions[i]
        depth = len(stack) + one.stack_effect(jump=jumps)
        if depth < 0:
            raise NotCuttable("a stack that is not understood")
        if one.name == "GET_ITER":
            return (*stack[:-1], i)
        if one.name == "FOR_ITER" and not jumps:
            return (*stack, None)
        if one.name == "SWAP":
            swapped = list(stack)
            swapped[-1], swapped[-typing.cast(int, one.arg)] = swapped[-typing.cast(int, one.arg)], swapped[-1]
            return tuple(swapped)
        if depth > len(stack):
            return stack + (None,) * (depth - len(stack))
        kept = stack[:depth]
        # What an instruction leaves on top is its result, unless it is known to leave none.
        leaves_none = one.name.startswith(_WITHOUT_RESULT) and one.name != "STORE_FAST_LOAD_FAST"
        return kept if not kept or leaves_none else (*kept[:-1], None)

    def _variables(self, code: types.CodeType) -> None:
        """Which variables are read before they are written behind each instruction, and which are surely there."""
        handlers = [[self._number_of[id(guard.target)] for guard in guards] for guards in self._guarded]
        following = [[to for to, _ in self.successors(i)] for i in range(len(self._instructions))]
        self._live: "list[set[str]]" = [set() for _ in self._instructions]
        changed = True
        while changed:
            changed = False
            for i in reversed(range(len(self._instructions))):
                reads, writes, _ = _touched(self._instructions[i])
                behind, raised = (typing.cast("set[str]", set()).union(*(self._live[to] for to in tos)) for tos in (following[i], handlers[i]))
                live = reads | (behind - writes) | raised
                if live != self._live[i]:
                    self._live[i], changed = live, True
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        # A comprehension puts aside what a name held, and puts it back; that may have been nothing.
        put_back = frozenset().union(*(_touched(one)[0] for one in self._instructions if one.name == "LOAD_FAST_AND_CLEAR"))
        self._there: "dict[int, frozenset[str]]" = {}
        todo = [(0, frozenset(code.co_varnames[:count]))]
        while todo:
            i, there = todo.pop()
            known = self._there.get(i)
            there = there if known is None else known & there
            if there == known:
                continue
            self._there[i] = there
            _, writes, drops = _touched(self._instructions[i])
            writes, drops = writes - put_back, set() if self._instructions[i].name == "LOAD_FAST_AND_CLEAR" else drops
            todo += [(to, (there | writes) - drops) for to in following[i]] + [(to, there - drops) for to in handlers[i]]

    def _is_place(self, i: int, stack: "tuple[int | None, ...]") -> bool:
        is_clean = all(one is not None for one in stack) and not self._guarded[i] and self._instructions[i].name not in (*_TRUNK, "END_FOR")
        # Python 3.13 leaves a loop over both.
        is_end_of_loop = i > 0 and (self._instructions[i - 1].name, self._instructions[i].name) == ("END_FOR", "POP_TOP")
        return is_clean and not is_end_of_loop and self._live[i] <= self._there.get(i, frozenset())

    # -- where to cut ----------------------------------------------------------------------------------------

    def number_at(self, offset: int) -> "int | None":
        """Of the instruction at a frame's ``f_lasti``."""
        found = [i for i, at in enumerate(self._offsets) if at <= offset]
        return found[-1] if found else None

    def line_of(self, place: Place) -> int:
        """In the source; 0 where nobody knows."""
        return self._instructions[place.at].lineno or 0

    def writes(self, name: str) -> bool:
        """Whether a variable is written anywhere."""
        return any(name in _touched(one)[1] | _touched(one)[2] for one in self._instructions)

    def numbers_on(self, line: int) -> "list[int]":
        """Of the instructions of a source line."""
        return [i for i, one in enumerate(self._instructions) if one.lineno == line]

    def places_before(self, i: int) -> "list[int]":
        """The places, BEGIN among them, from which a run comes to an instruction without passing another one."""
        return [at for at in (BEGIN, *self.places) if i in self.between(at)]

    def between(self, at: int) -> "frozenset[int]":
        """The instructions that a run that goes on at a place comes to before the next place."""
        if at not in self._between:
            self._between[at] = self._find_between(at)
        return self._between[at]

    def _find_between(self, at: int) -> "frozenset[int]":
        met: "set[int]" = set() if at == BEGIN else {at}
        todo = [0] if at == BEGIN else [to for to, _ in self.successors(at)]
        while todo:
            i = todo.pop()
            if i in met or i in self.places:
                continue
            met.add(i)
            todo += [to for to, _ in self.successors(i)] + [self._number_of[id(guard.target)] for guard in self._guarded[i]]
        return frozenset(met)

    def breaks(self, instructions: "typing.Iterable[int]") -> "set[int]":
        """Places whose statements run in Python, so that these instructions do, BEGIN for what comes before the first. With them the
        heads of all loops around, and of those that they enter: an iterator is handed on in Python alone."""
        found: "set[int]" = set()
        todo = list(instructions)
        while todo:
            places = self.places_before(todo.pop())
            if not places:
                raise NotCuttable("a statement to which no run is known to come")
            for at in set(places) - found:
                found.add(at)
                loops = {loop for to in self.next_places(at) for loop in self.places[to].loops}
                loops.update(self.places[at].loops if at != BEGIN else ())
                todo += [*loops, *(head for loop in loops for head in self._heads(loop))]
        return found

    def leaves_something(self, breaks: "set[int]") -> bool:
        """Whether anything is computed that runs in no statement of these."""
        in_python = frozenset[int]().union(*map(self.between, breaks))
        return any(i not in in_python and self._instructions[i].name.startswith(("CALL", "BINARY_", "COMPARE_", "UNARY_")) for i in self._stacks)

    def _heads(self, loop: int) -> "list[int]":
        """Where a loop takes the next one of its iterator."""
        return [i for i, one in enumerate(self._instructions) if one.name == "FOR_ITER" and self._stacks.get(i, ())[-1:] == (loop,)]

    def next_places(self, at: int) -> "set[int]":
        """Those to which a run comes first that goes on at a place."""
        return {to for i in self.between(at) for to, _ in self.successors(i) if to in self.places}

    # -- pieces ----------------------------------------------------------------------------------------------

    def piece(self, entry: "Place | None", exits: "typing.Iterable[int]", first: "str | None" = None, in_state: "typing.Sequence[str]" = (),
              keeps_iterators: bool = False) -> types.CodeType:
        """A function that goes on at a place, or begins, and stops before any of ``exits``.

        Takes the variables that are needed there: ``first``, where it is one, then an object where there is ``in_state`` (variables that
        are its attributes), the others by name and, where it keeps them, the iterators of the loops around. Gives ``(result,)`` where the
        function ends, else ``(iterators, number of the place, *its variables)``.
        """
        stops = set(exits) - {BEGIN}
        if entry is not None and not keeps_iterators:
            self._check_loops(entry, stops)
        body = Bytecode()
        for name in ("name", "qualname", "filename", "flags", "first_lineno", "docstring"):
            setattr(body, name, getattr(self._whole, name))
        body.freevars, body.cellvars = list(self._whole.freevars), list(self._whole.cellvars)
        start = Label()
        if entry is None:
            for name in ("argcount", "posonlyargcount", "kwonlyargcount", "argnames"):
                setattr(body, name, getattr(self._whole, name))
        else:
            self._begin(body, entry, first, in_state, keeps_iterators, start)
        at = 0
        for one in self._whole:
            if isinstance(one, Instr):
                if at in stops:
                    body += _stop(self.places[at], one.lineno, self._whole.cellvars)
                if entry is not None and at == entry.at:
                    body.append(start)
                at += 1
                if entry is not None and one.name in _TRUNK:
                    continue
                body += _returning(one)
            else:
                body.append(one)
        sizes = [self._code.co_stacksize, 1, len(body.argnames), *(len(self.places[at].needed) + 2 for at in stops)]
        try:
            return assembling.assemble(_without_what_is_not_reached(body), self._code, max(sizes), self._known)
        except Malformed as e:
            raise NotCuttable(str(e)) from e

    def _check_loops(self, entry: Place, stops: "set[int]") -> None:
        """What has no iterator of a loop must not come to its head."""
        met, todo = {entry.at}, [entry.at]
        while todo:
            i = todo.pop()
            if self._instructions[i].name == "FOR_ITER" and self._stacks.get(i, ())[-1:] in {(loop,) for loop in entry.loops}:
                raise NotCuttable("it goes on with a loop that has begun before")
            more = [to for to, _ in self.successors(i)] + [self._number_of[id(guard.target)] for guard in self._guarded[i]]
            todo += [to for to in more if to not in met and to not in stops]
            met.update(more)

    def _begin(self, body: Bytecode, entry: Place, first: "str | None", in_state: "typing.Sequence[str]", keeps_iterators: bool, start: Label
               ) -> None:
        line = self._instructions[entry.at].lineno
        loops = [f"@{i}" for i in range(len(entry.loops))] if keeps_iterators else []
        head = [first] if first in entry.needed else []
        names = [*head, *(["@state"] if in_state else []), *(n for n in entry.needed if n not in (*head, *in_state)), *loops]
        body.argcount, body.argnames = len(names), names
        body.flags &= ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        if body.freevars:
            body.append(Instr("COPY_FREE_VARS", len(body.freevars), lineno=line))
        body += [Instr("MAKE_CELL", CellVar(name), lineno=line) for name in body.cellvars]
        body.append(Instr("RESUME", 0, lineno=line))
        for name in in_state:
            body += [Instr("LOAD_FAST", "@state", lineno=line), _load_attribute(name, line), _store(name, body.cellvars, line)]
        body += [Instr("LOAD_FAST", name, lineno=line) for name in loops] or [Instr("LOAD_CONST", None, lineno=line)] * len(entry.loops)
        body.append(Instr("JUMP_FORWARD", start, lineno=line))


def _made_in(code: types.CodeType) -> "typing.Iterator[types.CodeType]":
    """The functions that a run of a function makes and that may be called when it has gone on."""
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _made_in(one) if one.co_name in _FOLDED else (one,)


def _touched(one: Instr) -> "tuple[set[str], set[str], set[str]]":
    """Variables that an instruction reads, writes and takes away."""
    name = one.name
    names = [str(part.name if isinstance(part, (CellVar, FreeVar)) else part) for part in (one.arg if isinstance(one.arg, tuple) else (one.arg,))]
    if isinstance(one.arg, FreeVar):
        return set(), set(), set()
    if name in ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "LOAD_CLASSDEREF"):
        return set(names), set(), set()
    if name in ("STORE_FAST", "STORE_FAST_STORE_FAST", "STORE_DEREF"):
        return set(), set(names), set()
    if name in ("DELETE_FAST", "DELETE_DEREF", "LOAD_FAST_AND_CLEAR"):
        return set(names), set(), set(names)
    if name == "STORE_FAST_LOAD_FAST":
        return ({names[1]} - {names[0]}), {names[0]}, set()
    if "FAST" in name or "DEREF" in name:
        raise NotCuttable(f"the instruction {name}")
    return set(), set(), set()


def _load_attribute(name: str, line: "int | None") -> Instr:
    return Instr("LOAD_ATTR", (False, name) if sys.version_info >= (3, 12) else name, lineno=line)


def _store(name: str, cells: "list[str]", line: "int | None") -> Instr:
    return Instr("STORE_DEREF", CellVar(name), lineno=line) if name in cells else Instr("STORE_FAST", name, lineno=line)


def _stop(place: Place, line: "int | None", cells: "list[str]") -> "list[Instr]":
    loads = [Instr("LOAD_DEREF", CellVar(name), lineno=line) if name in cells else Instr("LOAD_FAST", name, lineno=line) for name in place.needed]
    return [Instr("BUILD_TUPLE", len(place.loops), lineno=line), Instr("LOAD_CONST", place.at, lineno=line), *loads,
            Instr("BUILD_TUPLE", len(loads) + 2, lineno=line), Instr("RETURN_VALUE", lineno=line)]


def _returning(one: Instr) -> "list[Instr]":
    """A result in a tuple of its own."""
    if one.name not in ("RETURN_VALUE", "RETURN_CONST"):
        return [one]
    value = [Instr("LOAD_CONST", one.arg, lineno=one.lineno)] if one.name == "RETURN_CONST" else []
    return [*value, Instr("BUILD_TUPLE", 1, lineno=one.lineno), Instr("RETURN_VALUE", lineno=one.lineno)]


def _without_what_is_not_reached(body: Bytecode) -> Bytecode:
    where = {id(one): i for i, one in enumerate(body) if isinstance(one, Label)}
    guards_at: "dict[int, list[TryBegin]]" = {}
    guards: "list[TryBegin]" = []
    for i, one in enumerate(body):
        if isinstance(one, TryBegin):
            guards = [*guards, one]
        elif isinstance(one, TryEnd):
            guards = [guard for guard in guards if guard is not one.entry]
        guards_at[i] = guards
    met: "set[int]" = set()
    used: "set[int]" = set()
    todo = [0]
    while todo:
        i = todo.pop()
        if i in met or i >= len(body):
            continue
        met.add(i)
        one = body[i]
        if not isinstance(one, Instr):
            todo.append(i + 1)
            continue
        for guard in guards_at[i]:
            used.add(id(guard))
            todo.append(where[id(guard.target)])
        if isinstance(one.arg, Label):
            todo.append(where[id(one.arg)])
        if not one.is_uncond_jump() and one.name not in _ENDS:
            todo.append(i + 1)

    def stays(i: int, one: typing.Any) -> bool:
        if isinstance(one, TryBegin):
            return id(one) in used
        if isinstance(one, TryEnd):
            return id(one.entry) in used
        return isinstance(one, Label) or i in met

    body[:] = [one for i, one in enumerate(body) if stays(i, one)]
    return body
