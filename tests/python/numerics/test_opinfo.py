# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own sample inputs, for every operator that Ingot has a rule for: all element types, contiguous and not, against eager.

The samples of an operator are one function, so that one compile covers them. Differences that rounding allows are those of
tests/fuzz/tensors/errors.py.
"""

import pathlib
import re
import sys

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "fuzz" / "tensors"))

import check  # noqa: E402
import errors  # noqa: E402

KNOWN = {name.split(".")[1] for name in re.findall(r'^OP\("(aten\.[\w.]+)"', (ROOT / "compiler" / "ops" / "ops.def").read_text(), re.MULTILINE)}
# Memory that nobody wrote, numbers that nobody can repeat, tensors that are not strided, samples for another device or of
# complex numbers alone.
LEFT_OUT = {"bernoulli", "exponential", "empty", "empty_like", "multinomial", "new_empty", "nn.functional.dropout", "nn.functional.silu/complex",
            "nn.functional.batch_norm/without_cudnn", "imag", "istft", "stft", "view_as_complex", "view_as_real", "rand_like", "randint", "randn", "randn_like", "sparse.mm/reduce"}
# Element types that are refused by name, as is a whole program that has one.
UNKNOWN = {torch.uint16, torch.uint32, torch.uint64, torch.complex32, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz}
# Samples that cannot be captured, with why; they still get eager's answer.
EAGER = {
    "narrow": "shares memory",   # its start is a tensor: a view that no rule knows
    "complex": "ComplexHalf",
    "fft.ifft": "conjugate",
    "nn.functional.instance_norm": "updates running statistics",
    "tensor_split": "shares memory",   # at bounds: parts lie where no rule tells
    "nn.functional.batch_norm": "updates running statistics",
    "nn.functional.scaled_dot_product_attention": "call",   # it seeds the generator
}
NUMEL_MAX = 1 << 13


def full_name(info):
    return info.name + (f"/{info.variant_test_name}" if info.variant_test_name else "")


def is_known(info):
    return full_name(info) not in LEFT_OUT and {info.aten_name, info.name, info.name.split(".")[-1]} & KNOWN


INFOS = {full_name(info): info for info in op_db if is_known(info)}


def samples_of(info, name):
    """A few samples of each element type; which ones depends on the operator's name alone."""
    for at, dtype in enumerate(sorted((d for d in info.dtypes if not d.is_complex and d not in UNKNOWN), key=str)):
        try:
            found = list(info.sample_inputs_func(info, torch.device("cpu"), dtype, False))
        except RuntimeError:   # Some cannot be made for every type they list.
            continue
        found = [s for s in found if all(t.numel() <= NUMEL_MAX for t in check.tensors([s.input, s.args, s.kwargs]))]
        if found:
            first = (sum(name.encode()) + at) % len(found)
            yield f"{dtype} sample {first}", found[first]
            second = (first + 7) % len(found)
            yield f"{dtype} sample {second}, not contiguous", found[second].noncontiguous()


class Call:
    """An operator on one sample: its tensors are arguments, the rest is fixed."""

    def __init__(self, info, sample, at):
        leaves, self._spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.tensors = [leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor)]
        places = iter(range(at, at + len(self.tensors)))
        self._leaves = [(next(places), None) if isinstance(leaf, torch.Tensor) else (None, leaf) for leaf in leaves]
        self._function = info.op

    def arguments(self, tensors):
        return pytree.tree_unflatten([value if at is None else tensors[at] for at, value in self._leaves], self._spec)

    def expected(self, tensors):
        """What eager gives and how far an answer may be from it; None where there is nothing to compare."""
        try:
            result = self.run(tensors)
            watched = errors.Errors()
            with watched:
                bounds = [watched.of(t).bound() for t in check.tensors(self.run(tensors))]
        except (errors.Unsteady, RuntimeError, IndexError, NotImplementedError, TypeError, ValueError):
            return None
        return result, bounds

    def run(self, tensors):
        one, args, kwargs = self.arguments(tensors)
        return self._function(one, *args, **kwargs)


def together(title, calls):
    """One function of all the calls; its title makes its key its own."""
    ready = [(call._function, call.arguments) for call in calls]

    def run(*tensors):
        out = []
        for function, arguments in ready:
            one, args, kwargs = arguments(tensors)
            out.append(function(one, *args, **kwargs))
        return title, out

    return run


@pytest.fixture(autouse=True)
def plain_eager():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


def copied(tensors):
    """Copies that lie in memory as their originals do, with what is between their elements."""
    return [torch.empty(0, dtype=t.dtype).set_(t.untyped_storage().clone(), t.storage_offset(), t.shape, t.stride()) for t in tensors]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", INFOS)
def test_samples_of_pytorch(ingot, name):
    torch.manual_seed(0)
    calls, titles, tensors = [], [], []
    for title, sample in samples_of(INFOS[name], name):
        call = Call(INFOS[name], sample, len(tensors))
        if call.expected([*tensors, *copied(call.tensors)]) is not None:
            tensors += copied(call.tensors)
            calls.append(call)
            titles.append(title)
    assert calls
    function = together(name, calls)
    step, before = ingot.compile(function, wait=True), ingot.stats()["native_calls"]
    for _ in range(2):
        got = step(*copied(tensors))[1]
        for call, title, result in zip(calls, titles, got):
            want, bounds = call.expected(copied(tensors))
            mine, theirs = check.tensors(result), check.tensors(want)
            assert len(mine) == len(theirs)
            for a, b, bound in zip(mine, theirs, bounds):
                assert check.tensor_difference(a, b, bound) is None, f"{title}: {check.tensor_difference(a, b, bound)}"
    assert ingot.stats()["native_calls"] == before + (name not in EAGER), step.report()
    assert EAGER.get(name, "") in step.report()
