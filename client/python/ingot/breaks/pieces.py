# SPDX-License-Identifier: Apache-2.0
"""A function that is no one graph, in pieces: what lies between the statements that are none is served natively, with those in Python.

Each piece is a call site like any other: recorded, guarded, keyed and verified. What a statement hands on to the next piece is an argument
of that; numbers are attributes of an object, which each call fetches, so that they may be others every time (docs/sizes.md).
"""

import dataclasses
import dis
import functools
import logging
import threading
import types
import typing
import weakref

import torch

from ingot.breaks import cutting, parts
from ingot.trace import keys

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine

log = logging.getLogger("ingot")
_CUT_AT = ("value guards failed", "more than", "call: ", "escape-")
"""Reasons that lie in a statement: what it does may be done in Python. Others are about the whole run, as finalizers are."""
_NOT_MADE = (cutting.NotCuttable, ValueError, RuntimeError)
"""What assembles code refuses what it does not know."""
_PIECES_MAX = 64
_SHAPES_MAX = 16
"""Argument structures of a piece: what statements hand on, lists of numbers for one, may be of another structure every time."""


class Wrapper:
    """A function around the one that is cut, as a decorator has made it: it calls what a variable of its holds."""

    def __init__(self, function: types.FunctionType, inner: types.FunctionType) -> None:
        self._function, self._code, self._inner = function, function.__code__, inner
        held = zip(self._code.co_freevars, function.__closure__ or ())
        found = [(name, cell) for name, cell in held if _content(cell) is inner]
        self._name, self._cell = found[0] if found else ("", types.CellType())
        stores = any(one.opname in ("STORE_DEREF", "DELETE_DEREF") and one.argval == self._name for one in dis.get_instructions(self._code))
        if not found or stores or any(self._name in one.co_freevars for one in self._code.co_consts if isinstance(one, types.CodeType)):
            raise cutting.NotCuttable(f"{function.__qualname__} calls it in a way that nobody knows")

    def holds(self) -> bool:
        """Whether it is what it was."""
        return self._function.__code__ is self._code and _content(self._cell) is self._inner

    def around(self, inner: "typing.Callable[..., typing.Any]") -> "typing.Callable[..., typing.Any]":
        """Another one, that calls ``inner`` and shares all else."""
        cells = tuple(types.CellType(inner) if cell is self._cell else cell for cell in self._function.__closure__ or ())
        made = types.FunctionType(self._code, self._function.__globals__, self._function.__name__, self._function.__defaults__, cells)
        made.__kwdefaults__ = self._function.__kwdefaults__
        functools.update_wrapper(made, inner)
        return made


def _content(cell: types.CellType) -> typing.Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


class Subject(typing.NamedTuple):
    """What is cut: the Python function behind a callable, and behind its decorators."""

    function: typing.Any
    """A ``types.FunctionType``, which a checker would take for a method here."""
    owner: typing.Any
    """Its first argument; None for a plain function."""
    module: "torch.nn.Module | None"
    """Of which it is the ``forward``."""
    outer: typing.Any
    """What the callable calls: the function itself, or the outermost of its wrappers."""
    wrappers: "tuple[Wrapper, ...]"
    """Around the function, innermost first."""


def subject_of(target: typing.Any) -> Subject:
    """NotCuttable where no Python function is behind it."""
    is_part = getattr(target, "__func__", None) is torch.nn.Module._call_impl
    module = target if isinstance(target, torch.nn.Module) else target.__self__ if is_part else None
    method = target if module is None else module.forward
    owner, function = getattr(method, "__self__", None), getattr(method, "__func__", method)
    if not isinstance(function, types.FunctionType):
        owner, function = target, getattr(type(target), "__call__", None)
    if not isinstance(function, types.FunctionType) or module is not None and owner is not module:
        raise cutting.NotCuttable("no Python function")
    outer, wrappers = function, []
    while isinstance(inner := getattr(function, "__wrapped__", None), types.FunctionType):
        wrappers.append(Wrapper(function, inner))
        function = inner
    return Subject(function, owner, module, outer, tuple(reversed(wrappers)))


class State:
    """The numbers that a piece is given."""


class Piece:
    """From one place to the next, by an engine of its own or in Python."""

    def __init__(self, call: "typing.Callable[..., typing.Any]", left_out: "tuple[str, ...]" = (), numbers: "tuple[str, ...]" = (),
                 engine: "Engine | None" = None, keeps_iterators: bool = False) -> None:
        self._call, self._left_out, self._numbers, self.engine = call, {*left_out, *numbers}, numbers, engine
        self.keeps_iterators = keeps_iterators
        self._free: "list[State]" = []

    def run(self, variables: "dict[str, typing.Any]", iterators: "tuple[typing.Any, ...]") -> "tuple[typing.Any, ...]":
        """What its function gives (``cutting.Cuttable.piece``)."""
        given = [value for name, value in variables.items() if name not in self._left_out]
        if not self._numbers:
            return typing.cast("tuple[typing.Any, ...]", self._call(*given, *iterators))
        state = self._free.pop() if self._free else State()  # One for each call that runs.
        vars(state).update((name, variables[name]) for name in self._numbers)
        try:
            return typing.cast("tuple[typing.Any, ...]", self._call(state, *given, *iterators))
        finally:
            self._free.append(state)


class InPieces:
    """A function in pieces: called as the engine's target is, it gives what that would."""

    def __init__(self, whole: "Engine", subject: Subject, cuttable: cutting.Cuttable, breaks: "set[int]") -> None:
        self._whole, self._subject, self._cuttable, self._breaks = weakref.ref(whole), subject, cuttable, breaks
        self._target, self._code, self._config, self._name = whole.target, subject.function.__code__, whole.config, whole.name
        self._defaults = subject.function.__defaults__, subject.function.__kwdefaults__
        variables = self._code.co_varnames
        takes_owner = subject.owner is not None and bool(self._code.co_argcount) and not cuttable.writes(variables[0])
        self._owner_name = variables[0] if takes_owner else None
        self._pieces: "dict[tuple[int, tuple[str, ...] | None], Piece]" = {}
        self._lock = threading.Lock()
        begins_in_python = cutting.BEGIN in breaks
        cuttable.piece(None, ())
        for at in breaks - {cutting.BEGIN}:
            self._piece(at, None)  # What cannot be made is found here and above, where all of it is, not in the middle of a run.
        self._begin = self._first_in_python() if begins_in_python else self._engine(self._function(None, ()), True, 0).site
        self._wrapped = self._in_wrappers() if subject.wrappers else None

    def __call__(self, /, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        if not self._is_what_was_cut():
            return self._target(*args, **kwargs)
        return self._wrapped(*args, **kwargs) if self._wrapped is not None else self._run(args, kwargs)

    def _in_wrappers(self) -> "typing.Callable[..., typing.Any]":
        """The function's wrappers around its pieces."""
        function, owner = self._subject.function, self._subject.owner

        @functools.wraps(function)
        def inner(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            if owner is None:
                return self._run(args, kwargs)
            return self._run(args[1:], kwargs) if args and args[0] is owner else function(*args, **kwargs)

        made: "typing.Callable[..., typing.Any]" = inner
        for wrapper in self._subject.wrappers:
            made = wrapper.around(made)
        return types.MethodType(made, owner) if owner is not None else made

    def _run(self, args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> typing.Any:
        given = self._begin(*args, **kwargs)
        iterators: "tuple[typing.Any, ...]" = given[0] if len(given) > 1 else ()
        while len(given) > 1:
            _, at, *values = given
            variables = dict(zip(self._cuttable.places[at].needed, values))
            numbers = None if at in self._breaks else tuple(n for n, value in variables.items() if type(value) in (int, float))
            piece = self._piece(at, numbers)
            given = piece.run(variables, iterators if piece.keeps_iterators else ())
            if len(given) > 1:  # A native piece comes to no head of a loop around it.
                iterators = given[0] if piece.keeps_iterators else iterators[:len(given[0])]
            if piece.engine is not None and piece.engine.has_too_many_signatures() and at not in self._breaks:
                self._breaks |= self._cuttable.breaks([at])  # What comes next may be native again.
        return given[0]

    def _is_what_was_cut(self) -> bool:
        function, owner, module, outer, wrappers = self._subject
        if module is not None and (has_hooks(module) or getattr(module.forward, "__func__", None) is not outer):
            return False
        if not all(wrapper.holds() for wrapper in wrappers):
            return False
        defaults, kwdefaults = self._defaults
        return function.__code__ is self._code and function.__defaults__ is defaults and function.__kwdefaults__ is kwdefaults

    def _piece(self, at: int, numbers: "tuple[str, ...] | None") -> Piece:
        """``numbers`` is None for one that runs in Python."""
        piece = self._pieces.get((at, numbers))
        if piece is None:
            with self._lock:
                piece = self._pieces.get((at, numbers)) or self._make(at, numbers)
                self._pieces[at, numbers] = piece
        return piece

    def _make(self, at: int, numbers: "tuple[str, ...] | None") -> Piece:
        place = self._cuttable.places[at]
        if numbers is None or len(self._pieces) >= _PIECES_MAX:
            return Piece(self._function(place, (), in_python=True), keeps_iterators=True)
        takes_owner = self._owner_name in place.needed
        left_out = (typing.cast(str, self._owner_name),) if takes_owner else ()
        try:
            function = self._function(place, numbers, takes_owner)
        except _NOT_MADE as e:  # The run is under way.
            log.debug("%s runs in Python from line %s: %s", self._name, self._cuttable.line_of(place), e)
            self._breaks.add(at)
            return self._make(at, None)
        engine = self._engine(function, takes_owner, self._cuttable.line_of(place), numbers)
        return Piece(engine.site, left_out, numbers, engine)

    def _function(self, place: "cutting.Place | None", numbers: "tuple[str, ...]", takes_owner: bool = False, in_python: bool = False
                  ) -> types.FunctionType:
        function = self._subject.function
        exits = self._cuttable.places if in_python else self._breaks
        code = self._cuttable.piece(place, exits, self._owner_name if takes_owner else None, numbers, keeps_iterators=in_python)
        made = types.FunctionType(code, function.__globals__, None, None, function.__closure__)
        where = f" from line {self._cuttable.line_of(place)}" if place is not None else " to its first cut"
        # By its own name a function says what arguments it does not take.
        made.__name__, made.__qualname__ = function.__name__, function.__qualname__
        setattr(made, keys.PIECE, where)
        made.__module__ = function.__module__
        if place is None:
            made.__defaults__, made.__kwdefaults__ = self._defaults
        return made

    def _first_in_python(self) -> typing.Any:
        made, owner = self._function(None, (), in_python=True), self._subject.owner
        return types.MethodType(made, owner) if owner is not None else made

    def _engine(self, function: types.FunctionType, takes_owner: bool, line: int, numbers: "tuple[str, ...]" = ()) -> "Engine":
        from ingot.site.engine import Engine

        owner = self._subject.owner
        target = types.MethodType(function, owner) if takes_owner and owner is not None else function
        config = dataclasses.replace(self._config, shapes_max=min(self._config.shapes_max, _SHAPES_MAX))
        part = Engine(target, config, f"{self._name}, from line {line}" if line else f"{self._name}, its first piece")
        part.site._hide_parts()
        part.fetch_always(f"object:0.{number}" for number in numbers)
        whole = self._whole()
        if whole is not None:
            whole.take_part(part)
        return part


class Cut:
    """How a function is cut where its values leave the graph."""

    def __init__(self, whole: "Engine", survey: parts.Survey, subject: "Subject | None", cuttable: "cutting.Cuttable | None") -> None:
        self._whole, self.survey, self._subject, self._cuttable = whole, survey, subject, cuttable
        self.stays_whole = ""
        """Why the function is not cut."""

    @classmethod
    def of(cls, whole: "Engine", why: str) -> "Cut":
        """With a survey that is still to run."""
        try:
            if not why.startswith(_CUT_AT):
                raise cutting.NotCuttable("the reason is no statement's")
            subject = subject_of(whole.target)
            return cls(whole, parts.Survey(whole.target, why, subject.function.__code__), subject, cutting.Cuttable(subject.function.__code__))
        except cutting.NotCuttable as e:
            cut = cls(whole, parts.Survey(whole.target, why), None, None)
            cut.stays_whole = str(e)
            return cut

    def in_pieces(self) -> "InPieces | None":
        """After the survey; None where the function stays as it is."""
        self.stays_whole = self.stays_whole or self.survey.needs_whole or ""
        if self._cuttable is None or self._subject is None or self.stays_whole:
            return None
        try:
            line = self.survey.line_of_reason()
            found = [self._cuttable.number_at(offset) for offset in self.survey.offsets]
            breaks = self._cuttable.breaks([i for i in found if i is not None] + (self._cuttable.numbers_on(line) if line else []))
            if not breaks or not self._cuttable.leaves_something(breaks):
                return None
            return InPieces(self._whole, self._subject, self._cuttable, breaks)
        except _NOT_MADE as e:
            self.stays_whole = str(e)
            return None


def has_hooks(module: torch.nn.Module) -> bool:
    """Whether a call of the module does more than its ``forward``."""
    own = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")
    shared = ("_global_backward_pre_hooks", "_global_backward_hooks", "_global_forward_hooks", "_global_forward_pre_hooks")
    return any(getattr(module, name) for name in own) or any(getattr(torch.nn.modules.module, name) for name in shared)
