# SPDX-License-Identifier: Apache-2.0
"""What users want to have put in the place of what: two functions, recorded when they are registered, and data from then on."""

import threading
import typing

import torch

from ingot import _native, config, errors
from ingot.reasons import advice
from ingot.trace import calls, paths, recording

_Number = int | float
_PATTERNS_MAX = 64
_registered: "dict[str, Pattern]" = {}
_lock = threading.Lock()


class Pattern(typing.NamedTuple):
    """A registered pattern. Its digest, which is in keys, says what both functions compute, whatever they are called."""

    name: str
    digest: str
    search: bytes
    replace: bytes
    varied_search: bytes
    varied_replace: bytes
    is_checked: bool
    """Both functions have given the same on the examples."""

    def wire(self) -> "tuple[str, bytes, bytes, bytes, bytes]":
        """As requests carry it."""
        return self.name, self.search, self.replace, self.varied_search, self.varied_replace

    def __repr__(self) -> str:
        return f"<ingot pattern {self.name} {self.digest[:12]}>"


def register_pattern(search: "typing.Callable[..., typing.Any]", replace: "typing.Callable[..., typing.Any]",
                     example_inputs: "typing.Sequence[torch.Tensor | int | float]", *, name: "str | None" = None,
                     check: bool = True) -> Pattern:
    """Has every graph that is compiled from now on compute ``replace`` wherever it computes ``search``.

    Both are functions of the same arguments that return a tensor, or as many tensors as each other. They are run on the
    examples and recorded. Examples say how many dims a tensor has and of what type it is, and which sizes are equal; its sizes
    may be any. A number among the examples stands for any number, a number that ``search`` has written down for itself alone.
    Where ``search`` is found but what lies between its arguments and its results is used by something else, or ``replace`` would
    give results of other sizes, types or strides, it is left alone: ``report()`` of a compiled function says why.

    With ``check``, both must give the same on the examples, as ``torch.testing.assert_close`` sees it. Call sites that have
    native code already keep it. The pattern's digest is in the keys of what is compiled, and so is the same in every process
    that registers the same functions.

    Returns the pattern, which :func:`unregister_pattern` takes. Raises :class:`ingot.Invalid` where the functions or examples are
    no pattern or give different results, :class:`ingot.Unsupported` where one of them is no graph.
    """
    name = name or _name_of(search)
    args = tuple(example_inputs)
    for i, value in enumerate(args):
        if type(value) not in (torch.Tensor, torch.nn.Parameter, int, float):
            raise errors.Invalid(f"pattern {name!r}: example input {i} is {type(value).__name__}, expected a tensor, an int or a float")
    with torch.no_grad():
        if check:
            _compare(name, search, replace, args)
        first = [_record(name, what, function, args) for what, function in (("search", search), ("replace", replace))]
        varied = [b"", b""]
        if any(not isinstance(value, torch.Tensor) for value in args):
            try:
                varied = [_record(name, what, function, _with_other_numbers(args)) for what, function in (("search", search), ("replace", replace))]
            except errors.Error:
                raise
            except Exception as e:
                raise errors.Invalid(f"pattern {name!r}: with other numbers than those among the example inputs it raises {type(e).__name__}: {e}; "
                                     "a number that decides more than a value is written into the function") from e
    parts = (*first, *varied)
    digest = _native.digest_bytes(b"".join(len(part).to_bytes(8, "little") + part for part in parts))
    pattern = Pattern(name, digest, first[0], first[1], varied[0], varied[1], check)
    with _lock:
        known = _registered.get(name)
        if known is not None and known.digest != pattern.digest:
            raise errors.Invalid(f"pattern {name!r}: another one of that name is registered: unregister it, or give this one a name")
        if known is None and len(_registered) >= _PATTERNS_MAX:
            raise errors.Exhausted(f"pattern {name!r}: {_PATTERNS_MAX} patterns are registered, and that is the most there can be")
        if known is None or (check and not known.is_checked):
            _registered[name] = pattern
    return pattern


def unregister_pattern(pattern: "Pattern | str") -> None:
    """Graphs that are compiled from now on do without it. Raises :class:`ingot.NotFound` where it is not registered."""
    name = pattern if isinstance(pattern, str) else pattern.name
    with _lock:
        if _registered.pop(name, None) is None:
            raise errors.NotFound(f"pattern {name!r} is not registered; there are {', '.join(_registered) or 'none'}")


def registered() -> "tuple[Pattern, ...]":
    """In the order in which they are applied: that of their registration."""
    return tuple(_registered.values()) if _registered else ()


def _name_of(function: typing.Any) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _copies(args: "tuple[typing.Any, ...]") -> "tuple[typing.Any, ...]":
    return tuple(value.detach().clone() if isinstance(value, torch.Tensor) else value for value in args)


def _with_other_numbers(args: "tuple[typing.Any, ...]") -> "tuple[typing.Any, ...]":
    """No two numbers that are equal are changed alike, so that each is known by what it was and what it has become."""
    changed: "list[typing.Any]" = []
    for i, value in enumerate(args):
        if isinstance(value, torch.Tensor):
            changed.append(value)
        else:
            changed.append(value + 1 + i if isinstance(value, int) else value * 1.25 + 0.0625 * (i + 1))
    return tuple(changed)


def _tensors(name: str, what: str, result: typing.Any) -> "tuple[torch.Tensor, ...]":
    results = result if isinstance(result, (tuple, list)) else (result,)
    for value in results:
        if not isinstance(value, torch.Tensor):
            raise errors.Invalid(f"pattern {name!r}: {what} returns {type(value).__name__}, expected a tensor or a tuple of tensors")
    return tuple(results)


def _compare(name: str, search: typing.Any, replace: typing.Any, args: "tuple[typing.Any, ...]") -> None:
    expected, found = _tensors(name, "search", search(*_copies(args))), _tensors(name, "replace", replace(*_copies(args)))
    if len(expected) != len(found):
        raise errors.Invalid(f"pattern {name!r}: search returns {len(expected)} tensors, replace returns {len(found)}")
    for i, (wanted, got) in enumerate(zip(expected, found)):
        try:
            torch.testing.assert_close(got, wanted, equal_nan=True)
        except AssertionError as e:
            raise errors.Invalid(f"pattern {name!r}: on the example inputs, result {i} of replace is not that of search: {' '.join(str(e).split())}; "
                                 "check=False takes it all the same") from None


def _record(name: str, what: str, function: typing.Any, args: "tuple[typing.Any, ...]") -> bytes:
    """The recording of one function, as it is sent."""
    from ingot.trace import keys  # It knows patterns.

    args = _copies(args)
    who = f"pattern {name!r}: {what}"
    if not paths.plain_function(function):
        raise errors.Invalid(f"{who} is {type(function).__name__}, expected a Python function")
    call = calls.Call(args, {}, *_native.flatten(args, {}, keys.parameter_names(function), ()))
    run = recording.Recording(function, what, call, config.resolve(None), follows_sizes=True)
    result = _tensors(name, what, run.run())
    try:
        captured = run.finish(result)
    except recording.Refused as e:
        raise errors.Unsupported(f"{who} is no graph: {advice.sentence(e.name, e.detail)}") from None
    try:
        return bytes(_native.pattern_recording(captured.recording))
    except errors.Error as e:
        raise type(e)(f"{who} makes no pattern: {e}") from None
