# SPDX-License-Identifier: Apache-2.0
"""Functions that return what composites are made from and what they give: who writes to one result must change the others where eager's do.

Composites are those that compiler/ops/ops.def takes apart (DECOMPOSE) or lays as views, on PyTorch's samples and the cases of
tests/python/numerics/test_decompose.py, with sizes and numbers made 1 and 0: there, parts become views of what they were made from.
"""

import pathlib
import random
import re
import sys
import typing

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python" / "numerics"))
import test_decompose  # noqa: E402

LINE = re.compile(r'^OP\("aten\.(\w+)[\w.]*", "[^"]*", k(\w+),.*', re.MULTILINE)
COMPOSITES = {found[1] for found in LINE.finditer((ROOT / "compiler" / "ops" / "ops.def").read_text()) if "DECOMPOSE(" in found[0]}
VIEWS = {found[1] for found in LINE.finditer((ROOT / "compiler" / "ops" / "ops.def").read_text()) if found[2] == "View" and "DECOMPOSE(" not in found[0]}
LEFT_OUT = {"view_as_real", "view_as_complex"}   # Samples are complex.

Function = typing.Callable[..., typing.Any]
BEFORE: "list[Function]" = [lambda x: x, lambda x: x * 2, lambda x: x * 2, lambda x: x[:], lambda x: x.clone()]
"""What an operand is made from an argument by."""
AFTER: "list[Function]" = [
    lambda y: y, lambda y: y.contiguous(), lambda y: y.reshape(-1), lambda y: y.squeeze(), lambda y: y[:1] if y.dim() else y, lambda y: y.to(y.dtype),
    lambda y: y.flatten(), lambda y: y.clone(), lambda y: y.transpose(0, -1) if y.dim() else y, lambda y: y.unsqueeze(0).expand(1, *y.shape), lambda y: y + 1]
CALLS = 3


def _infos(names: "set[str]") -> "list[typing.Any]":
    return [info for info in op_db if not info.variant_test_name and {info.name.split(".")[-1], info.aten_name} & names - LEFT_OUT]


INFOS = {"composites": _infos(COMPOSITES), "views": _infos(VIEWS)}


def _of_samples(pick: random.Random) -> "tuple[str, Function, list[torch.Tensor]]":
    """An operator on one sample: (its name, a function of the sample's tensors, these)."""
    info = pick.choice(INFOS["composites" if pick.random() < 0.7 else "views"])
    sample = pick.choice(list(info.sample_inputs_func(info, torch.device("cpu"), torch.float32, False)))
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))

    def function_of(leaves: "list[typing.Any]") -> Function:
        def run(*tensors: torch.Tensor) -> typing.Any:
            given = iter(tensors)
            one, args, kwargs = pytree.tree_unflatten([next(given) if leaf is None else leaf[0] for leaf in places], spec)
            return info.op(one, *args, **kwargs)
        places = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
        return run

    def tensors_of(leaves: "list[typing.Any]") -> "list[torch.Tensor]":
        return [leaf.detach().clone() for leaf in leaves if isinstance(leaf, torch.Tensor)]

    narrow = [d for d in range(4) if pick.random() < 0.3]
    less = pick.random()
    changed = [leaf[tuple(slice(0, 1) if d in narrow else slice(None) for d in range(leaf.dim()))] if isinstance(leaf, torch.Tensor)
               else pick.choice((0, 1)) if type(leaf) is int and less < 0.4 else leaf for leaf in leaves]
    try:
        function_of(changed)(*tensors_of(changed))
    except Exception:
        changed = leaves
    return info.name, function_of(changed), tensors_of(changed)


def _of_cases(pick: random.Random) -> "tuple[str, Function, list[torch.Tensor]]":
    """The same of what the tests of the pass have."""
    name = pick.choice([*test_decompose.CASES, *test_decompose.FIXED])
    if name in test_decompose.FIXED:
        function, size = test_decompose.FIXED[name]
        return name, function, [torch.randn(size)]
    make, shapes, dtypes = test_decompose.CASES[name]
    return name, make(), [torch.randn(size).to(dtypes[0]) for size in pick.choice(shapes)]


def _layout(tensor: torch.Tensor) -> "tuple[typing.Any, ...]":
    """Of dims with one index the stride says nothing."""
    return tensor.shape, [stride for size, stride in zip(tensor.shape, tensor.stride()) if size > 1 and tensor.numel()], tensor.dtype


def _fill(tensor: torch.Tensor, number: int) -> None:
    """Of elements that are one in memory each is written once."""
    tensor[tuple(0 if stride == 0 and size > 0 else slice(None) for size, stride in zip(tensor.shape, tensor.stride()))].fill_(number)


def _write_each(tensors: "list[torch.Tensor]") -> "list[list[int]]":
    """Of each tensor in its turn, what a write to it changes of each."""
    found = []
    for at, one in enumerate(tensors):
        for other in tensors:
            _fill(other, 0)
        _fill(one, 1)
        found += [[at, *other.reshape(-1).ne(0).nonzero().reshape(-1).tolist()] for other in tensors]
    return found


def check(seed: int) -> "tuple[str, int, int]":
    """(what is wrong, or nothing; calls; how many of them native code served)."""
    import ingot

    pick, before = random.Random(seed), ingot.stats()["native_calls"]
    torch.manual_seed(seed)
    name, function, tensors = (_of_cases if pick.random() < 0.3 else _of_samples)(pick)
    makes, follow = [pick.choice(BEFORE) for _ in tensors], pick.choice(AFTER)

    def f(*given: torch.Tensor) -> typing.Any:
        operands = [make(one) for make, one in zip(makes, given)]
        result = function(*operands)
        parts = list(result) if isinstance(result, (list, tuple)) else [result]
        return seed, operands, parts, [follow(part) for part in parts if isinstance(part, torch.Tensor)]

    def said_by(one: Function) -> "tuple[list[typing.Any], list[list[int]]]":
        given = [torch.rand_like(t) if t.is_floating_point() else t.clone() for t in tensors]
        found = [t for t in pytree.tree_leaves((given, one(*given))) if isinstance(t, torch.Tensor)]
        return [_layout(t) for t in found], _write_each(found)

    try:
        said_by(f)
    except Exception:  # Nothing to compare.
        return "", 0, 0
    step = ingot.compile(f, wait=True, dynamic=pick.choice((None, False)))
    for call in range(CALLS):
        said = [said_by(f), said_by(step)]
        if said[0] != said[1]:
            one = next((f"{a}\n  where this was found\n  {b}" for a, b in zip(*[[*layouts, *writes] for layouts, writes in said]) if a != b), str(said))
            made = [BEFORE.index(make) for make in makes]
            return (f"{name} of {[tuple(t.shape) for t in tensors]}, operands by {made}, then {AFTER.index(follow)}, call {call + 1}\n  {one}\n{step.as_text('graph')}",
                    call + 1, ingot.stats()["native_calls"] - before)
    return "", CALLS, ingot.stats()["native_calls"] - before
