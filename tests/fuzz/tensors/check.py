# SPDX-License-Identifier: Apache-2.0
"""Runs a program natively in every mode and holds each call against eager: values, types, sizes, strides, what shares memory
with what, what was written, exceptions."""

import dataclasses
import os
import re
import tempfile
import types
import typing

import torch
from torch.utils import _pytree as pytree

import errors
import program
import values

SEEDS_MAX = 8   # tries to find inputs whose results can be compared
OVERFLOWS = 1e30   # of a bound: what was added up may overflow in one order and not in another


@dataclasses.dataclass
class Report:
    failures: "list[dict[str, typing.Any]]" = dataclasses.field(default_factory=list)
    calls: "dict[str, int]" = dataclasses.field(default_factory=dict)    # that native code could have served, by mode
    served: "dict[str, int]" = dataclasses.field(default_factory=dict)
    reasons: "list[str]" = dataclasses.field(default_factory=list)       # why calls were not served
    operators: "list[str]" = dataclasses.field(default_factory=list)     # that were recorded
    kernels: "list[str]" = dataclasses.field(default_factory=list)       # of the exact program, named after what is in them


@dataclasses.dataclass
class Expected:
    """What eager gives for inputs, and how far an answer may be from it."""

    seed: int
    args: "list[torch.Tensor]"
    result: typing.Any
    error: "BaseException | None"
    bounds: "list[float]"   # of each argument, then of each result
    either_zero: bool = False   # the largest of 0.0 and -0.0 is either


class Checker:
    def __init__(self, ingot: types.ModuleType, module: types.ModuleType) -> None:
        self._ingot, self._module = ingot, module
        self.report = Report()

    def run(self, modes: "typing.Iterable[str]") -> Report:
        with torch.no_grad():
            for mode in modes:
                before = len(self.report.failures)
                try:
                    step = getattr(self, "_" + mode)()
                except errors.Unsteady:  # Nothing to compare.
                    step = None
                except Exception as error:  # what a user would see
                    self._fail(mode, None, f"raised {type(error).__name__}: {error}")
                    step = None
                if step is not None and self.report.calls.get(mode, 0) > self.report.served.get(mode, 0):
                    reason = str(step.report())
                    self.report.reasons.append(f"{mode}: {reason}")
                    if refused := re.search(r"eager: .*proof of .*", reason):   # The compiler is wrong, or else its proof.
                        self._fail(mode, None, refused[0])
                if step is not None and len(self.report.failures) > before:
                    break   # One mode is enough to look at.
        return self.report

    # -- the modes ------------------------------------------------------------------------------------

    def _exact(self) -> typing.Any:
        """Every size its own variant: the first sizes, and the smallest."""
        step = self._ingot.compile(self._module.program, dynamic=False, wait=True)
        for sizes in dict.fromkeys([self._sizes()[0], min(self._sizes())]):
            self._call("exact", step, sizes, 1, False)
            self._call("exact", step, sizes, 2)
            self._call("exact", step, sizes, 3)
        if step.variants:
            self.report.operators = sorted(set(re.findall(r"= (\w+\.[\w.]+)\(", step.as_text("graph"))))
            self.report.kernels = re.findall(r"^kernel k\d+_(\w+)", step.as_text("loop"), re.MULTILINE)
        return step

    def _template(self) -> typing.Any:
        step = self._ingot.compile(self._module.program, wait=True)
        for sizes in self._sizes():
            self._call("template", step, sizes, 1, False)
            self._call("template", step, sizes, 2)
        for sizes in self._sizes():
            self._call("template", step, sizes, 3)
        return step

    def _one(self) -> typing.Any:
        """One recording, and then sizes that nobody has recorded, as its range takes them."""
        first = max(self._sizes())
        step = self._ingot.compile(self._module.program, wait=True)
        self._call("one", step, first, 1, False)
        near = [(max(0, first[0] + i), max(0, first[1] + j)) for i, j in ((1, 0), (0, 1), (-1, 2), (5, 3), (-2, -1), (0, -1))]
        for sizes in dict.fromkeys([*self._sizes(), *near, (2, 2), (2, 3), (3, 2)]):
            self._call("one", step, sizes, 2, sizes in self._sizes())
        return step

    def _gears(self) -> typing.Any:
        sizes = [pair for pair in self._sizes() if all(t.numel() for t in self._module.inputs(*pair, 1))]
        shapes = [[list(t.shape) for t in self._module.inputs(*pair, 1)] for pair in sizes]
        first = self._module.inputs(*sizes[0], 1) if sizes else []
        geared = False
        for i, tensor in enumerate(first):
            dims = {d: [shape[i][d] for shape in shapes] for d in range(tensor.dim()) if len({shape[i][d] for shape in shapes}) > 1}
            if dims:
                self._ingot.set_dim_gears(tensor, dims)
                geared = True
        if not geared:
            return None
        step = self._ingot.compile(self._module.program, wait=True)
        try:
            step.prepare(*first)
        except (IndexError, RuntimeError):  # Repeated values may be no positions of another size.
            pass
        except self._ingot.gears.GearError:  # The program has given an argument sizes that were not declared.
            if [list(tensor.shape) for tensor in first] == shapes[0]:
                raise
        for pair in sizes:
            self._call("gears", step, pair, 1, False)
            self._call("gears", step, pair, 2)
        return step

    def _export(self) -> typing.Any:
        step = self._ingot.compile(self._module.program, wait=True)
        for sizes in self._sizes():
            try:
                step(*self._module.inputs(*sizes, 1))
            except (IndexError, RuntimeError):  # As eager does, which the other modes see to.
                pass
        if not step.variants:
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.ingot")
            step.export(path)
            loaded = self._ingot.load(path)
            for sizes in self._sizes():
                self._call("export", loaded, sizes, 2)
        return None

    def _special(self) -> typing.Any:
        """On numbers that are none, that have no end, on zeros of both signs, the smallest and the largest."""
        step = self._ingot.compile(self._module.program, wait=True)
        for sizes in self._sizes():
            try:
                self._call("special", step, sizes, 1, False)
                self._call("special", step, sizes, values.SPECIAL + 2)
            except errors.Unsteady:
                pass
        return step

    def _wrong(self) -> typing.Any:
        """On positions that are none: what raises in eager raises, whoever uses its result."""
        step = self._ingot.compile(self._module.program, wait=True)
        for sizes in self._sizes():
            try:
                self._call("wrong", step, sizes, 1, False)
                for seed in range(3):
                    self._call("wrong", step, sizes, values.WRONG + seed, False)
            except errors.Unsteady:
                pass
        return step

    def _traced(self) -> typing.Any:
        """As torch.export sees it: a range of sizes."""
        step = self._ingot.compile(self._module.program, capture="export", wait=True)
        for sizes in self._sizes():
            self._call("traced", step, sizes, 1, False)
            self._call("traced", step, sizes, 2)
        return step

    # -- one call -------------------------------------------------------------------------------------

    def _sizes(self) -> "list[tuple[int, int]]":
        return [tuple(pair) for pair in self._module.SIZES]

    def _call(self, mode: str, step: typing.Any, sizes: "tuple[int, int]", seed: int, counts: bool = True) -> None:
        expected = self._expected(sizes, seed)
        args = self._module.inputs(*sizes, expected.seed)
        before = self._ingot.stats()["native_calls"]
        result, error = program.outcome(step, args)
        if mode == "export" and isinstance(error, self._ingot.Invalid):
            served = False   # A size that the file does not have.
        else:
            served = mode == "export" or self._ingot.stats()["native_calls"] > before
            # A file has no eager code to raise the operator's own error, and what has written says so first.
            own = self._ingot.Error if mode == "export" else self._ingot.HalfDone
            both_raise = isinstance(error, own) and expected.error is not None
            what = None if both_raise else difference(args, result, error, expected)
            if what is not None:
                self._fail(mode, sizes, f"{'native' if served else 'eager'} call: {what}")
        if counts and expected.error is None:
            self.report.calls[mode] = self.report.calls.get(mode, 0) + 1
            self.report.served[mode] = self.report.served.get(mode, 0) + served

    def _fail(self, mode: str, sizes: "tuple[int, int] | None", what: str) -> None:
        self.report.failures.append({"mode": mode, "sizes": sizes, "what": what})

    def _expected(self, sizes: "tuple[int, int]", seed: int) -> Expected:
        """Eager's answer to the first inputs of these sizes whose results can be compared."""
        for number in range(seed, seed + 100 * SEEDS_MAX, 100):
            args, again = self._module.inputs(*sizes, number), self._module.inputs(*sizes, number)
            result, error = program.outcome(self._module.program, args)
            if error is not None:
                return Expected(number, args, None, error, [])
            watched = errors.Errors()
            try:
                with watched:
                    leaves = tensors(self._module.program(*again))
            except errors.Unsteady:
                continue
            either_zero = watched.chooses_zero or not set(errors.ADDS).isdisjoint(self._module.program.__code__.co_names)
            return Expected(number, args, result, None, [watched.of(t).bound() for t in (*again, *leaves)], either_zero)
        raise errors.Unsteady(f"no inputs of sizes {sizes} have results that can be compared")


# -- comparing ------------------------------------------------------------------------------------------


def tensors(tree: typing.Any) -> "list[torch.Tensor]":
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def difference(args: "list[torch.Tensor]", result: typing.Any, error: "BaseException | None", expected: Expected) -> "str | None":
    """The first thing that is not as eager has it."""
    if error is not None or expected.error is not None:
        return None if type(error) is type(expected.error) else f"raised {_said(error)}, eager {_said(expected.error)}"
    leaves, spec = pytree.tree_flatten(result)
    wanted, wanted_spec = pytree.tree_flatten(expected.result)
    if spec != wanted_spec:
        return f"result is {spec}, eager's {wanted_spec}"
    got, want = [*args, *leaves], [*expected.args, *wanted]
    names = [f"argument {i}" for i in range(len(args))] + [f"result {i}" for i in range(len(leaves))]
    for name, a, b in zip(names, got, want):
        if type(a) is not type(b):
            return f"{name} is {type(a).__name__}, eager's {type(b).__name__}"
    for what, relation in (("are one object", id), ("share memory", _memory)):
        mine, theirs = _groups(got, relation), _groups(want, relation)
        if mine != theirs:
            at = next(i for i, (x, y) in enumerate(zip(mine, theirs)) if x != y)
            return f"{names[at]} and {names[min(mine[at], theirs[at])]}: {what} in only one of native and eager"
    for i, (name, a, b, bound) in enumerate(zip(names, got, want, expected.bounds)):
        what = tensor_difference(a, b, bound, expected.either_zero)
        if what is None and i < len(args):
            what = _values_difference(_whole(a), _whole(b), bound, expected.either_zero, " of its memory")
        if what is not None:
            return f"{name}: {what}"
    return _layout_difference(names, got, want)


def _said(error: "BaseException | None") -> str:
    return "nothing" if error is None else f"{type(error).__name__}: {str(error)[:200]}"


def _memory(tensor: torch.Tensor) -> int:
    """Which memory a tensor lies in; nobody can tell it of one without elements."""
    return int(tensor.untyped_storage()._cdata) if tensor.numel() else id(tensor)


def _groups(values: "list[typing.Any]", relation: "typing.Callable[[typing.Any], int]") -> "list[int]":
    """For each value the first one that it is related to."""
    first: "dict[int, int]" = {}
    return [first.setdefault(relation(value), i) if isinstance(value, torch.Tensor) else i for i, value in enumerate(values)]


def _layout_difference(names: "list[str]", got: "list[typing.Any]", want: "list[typing.Any]") -> "str | None":
    """Where views lie in memory that they share."""
    for i, j in enumerate(_groups(got, _memory)):
        if isinstance(got[i], torch.Tensor):
            mine, theirs = (t[i].storage_offset() * t[i].element_size() - t[j].storage_offset() * t[j].element_size() for t in (got, want))
            if mine != theirs:
                return f"{names[i]} lies {mine} bytes behind {names[j]}, eager's {theirs}"
    return None


def tensor_difference(a: typing.Any, b: typing.Any, bound: float, either_zero: bool = False) -> "str | None":
    if not isinstance(a, torch.Tensor):
        return None if a == b else f"{a!r}, eager has {b!r}"
    for what, mine, theirs in (("type", a.dtype, b.dtype), ("sizes", list(a.shape), list(b.shape)), ("strides", _strides(a), _strides(b))):
        if mine != theirs:
            return f"{what} {mine}, eager has {theirs}"
    return _values_difference(a, b, bound, either_zero)


def _strides(tensor: torch.Tensor) -> "list[int]":
    return [stride for size, stride in zip(tensor.shape, tensor.stride()) if size > 1] if tensor.numel() else []


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """Everything from the tensor's first element to its last, gaps included."""
    if not tensor.numel():
        return tensor
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.as_strided((span,), (1,))


def _values_difference(a: torch.Tensor, b: torch.Tensor, bound: float, either_zero: bool, where: str = "") -> "str | None":
    if a.is_floating_point() and a.element_size() == 1:
        none = a.float().isnan() & b.float().isnan()
        if bound or either_zero:   # The sign of a zero that was rounded on the way.
            none |= (a.float() == 0) & (b.float() == 0)
        a, b = a.view(torch.uint8).masked_fill(none, 0), b.view(torch.uint8).masked_fill(none, 0)
    same = (a == b) | (a != a) & (b != b)
    if either_zero and a.is_floating_point() and a.element_size() > 1:   # What was divided by one.
        same |= a.isinf() & b.isinf()
    if errors.has_digits(a) and bound:
        wide = torch.complex128 if a.is_complex() else torch.float64
        same |= (a.to(wide) - b.to(wide)).abs() <= bound
        if bound > OVERFLOWS:
            same |= ~(a.isfinite() & b.isfinite())
    elif a.is_floating_point() and not either_zero:
        same &= (a.signbit() == b.signbit()) | (a != a)  # Nobody says which sign a NaN has.
    if bool(same.all()):
        return None
    at = tuple((~same).nonzero()[0].tolist()) if same.dim() else ()
    return (f"{int((~same).sum())} of {a.numel()} elements{where} differ{f' by more than {bound:.3g}' if bound else ''}, first at {list(at)}: "
            f"{a[at].item()!r}, eager has {b[at].item()!r}")
