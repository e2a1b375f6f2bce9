# SPDX-License-Identifier: Apache-2.0
"""Every operator with a fusion rule, through capture, daemon, compiler and plan, against eager.

One function holds all cases of a family, so that one compile covers them; a failure has a line for each case.
"""

import math
import pathlib
import subprocess

import pytest
import torch

from conftest import BIN
from op_cases import FAMILIES, INT, MIXED, MOVED, PAIRS, Inputs

SIZES = (8, 9, 3, 7, 15, 16, 17, 31, 33, 70)   # around vector widths
# Where functions saturate, round or change their formula.
SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1, -1)
CORNERS = (0.5, -0.5, 1.5, 2.5, -2.5, 3, -3, 6, 20.25, 88.8, -88.8, 104, -104, 709.9, -746, 3e4, -3e4, 1e-3)


def floats(dtype, sizes, generator, wild):
    """Random numbers; ``wild``: every second one special, with denormals and the largest. Otherwise few: sums keep a meaning."""
    info = torch.finfo(dtype)
    special = SPECIAL + CORNERS + (info.max, -info.max, info.tiny, -info.tiny * 0.3, info.tiny * info.eps * 3) if wild else SPECIAL
    table = torch.tensor(special, dtype=torch.float64)
    x = torch.rand(sizes, generator=generator, dtype=torch.float64) * 1.75 + 0.25
    x = torch.where(torch.rand(sizes, generator=generator) < 0.5, -x, x)
    often = torch.rand(sizes, generator=generator) < (0.5 if wild else 0.02)
    return torch.where(often, table[torch.randint(len(table), sizes, generator=generator)], x).to(dtype)


def integers(dtype, sizes, generator, wild):
    """Small numbers; ``wild``: a third of them extremes."""
    info = torch.iinfo(dtype)
    x = torch.randint(max(info.min, -9), 10, sizes, generator=generator)
    if wild:
        special = torch.tensor([info.min, info.max, info.max // 2, 0, 1, info.min // 3])
        x = torch.where(torch.rand(sizes, generator=generator) < 0.3, special[torch.randint(len(special), sizes, generator=generator)], x)
    return x.to(dtype)


def values(dtype, sizes, generator, wild):
    if dtype == torch.bool:
        return torch.rand(sizes, generator=generator) < 0.5
    return (floats if dtype.is_floating_point else integers)(dtype, sizes, generator, wild)


def nonzero(tensor):
    """Integers that torch can divide by."""
    whole = str(tensor.dtype).endswith(INT)
    return torch.where((tensor == 0) | (tensor == -1), 2, tensor).to(tensor.dtype) if whole else tensor


def inputs(dtype, sizes, seed, wild=True, place=lambda t: t, other=None):
    """What the cases take; ``place`` gives a full tensor its layout, ``other`` is the type of y and one."""
    dtype, other = getattr(torch, dtype), getattr(torch, other or dtype)
    generator = torch.Generator().manual_seed(seed)
    last = sizes[-1:]
    x, y = values(dtype, sizes, generator, wild), nonzero(values(other, sizes, generator, wild))
    tame = (torch.rand(sizes, generator=generator, dtype=torch.float64) * 200 - 100).to(dtype) if dtype.is_floating_point else x.clone()
    row, one = values(dtype, last, generator, wild), values(other, [], generator, wild)
    mask = torch.rand(sizes, generator=generator) < 0.5
    pick = torch.randint(max([1, *last]), sizes, generator=generator)
    return Inputs(place(x), place(y), place(tame), place(mask), row, one, pick, torch.randint(5, [3], generator=generator))


def bound(case, given, want):
    """The largest error allowed, for each element."""
    info = torch.finfo(want.dtype)
    scale = want.double().abs().nan_to_num(posinf=info.max)
    if case.summed:
        largest = sum(t.double().abs().nan_to_num(0, 0, 0).max() for t in (given.x, given.y, given.row) if t.numel())
        scale = scale + largest * max([1, *given.x.shape[-1:]])
    if case.cancels:
        scale = scale + given.x.double().abs()
    return case.ulps * (info.eps * scale + info.tiny * info.eps)


def far(case, given, got, want):
    """Where one result is further from another than it may be; two NaN are equal."""
    if not want.dtype.is_floating_point:
        return got != want
    same = (got == want) | got.isnan() & want.isnan()
    gap = (got.double() - want.double()).abs()
    return ~same & ~(got.isfinite() & want.isfinite() & (gap <= bound(case, given, want)))


def doubled(given):
    return Inputs(*(t.double() if t.is_floating_point() else t for t in given))


def wrong_values(case, given, part, got, want):
    """Where a result differs from eager's and is no nearer to what float64 operands give than eager's is."""
    if want.dtype.itemsize == 1 and want.dtype.is_floating_point:
        got, want = got.float(), want.float()
    wrong = far(case, given, got, want)
    if not wrong.any() or not want.dtype.is_floating_point or want.dtype == torch.float64 and case.exact is None:
        return wrong
    exact = (case.exact or case.call)(doubled(given))
    exact = exact[part] if isinstance(exact, (list, tuple)) else exact
    nearer = (got.double() - exact).abs() <= (want.double() - exact).abs()
    return wrong & ~nearer & far(case, given, got, exact.to(want.dtype))


def strides(tensor):
    return [stride for size, stride in zip(tensor.shape, tensor.stride()) if size > 1] if tensor.numel() else []


def difference(case, given, part, got, want):
    """What is wrong with one tensor of a result, or None."""
    for what, a, b in (("dtype", got.dtype, want.dtype), ("sizes", got.shape, want.shape), ("strides", strides(got), strides(want))):
        if a != b:
            return f"{what} {a}, eager has {b}"
    wrong = wrong_values(case, given, part, got, want)
    if not wrong.any():
        return None
    at = tuple(wrong.nonzero()[0].tolist())
    operands = [t[at].item() for t in (given.x, given.y) if t.shape == want.shape]
    return f"{int(wrong.sum())} of {want.numel()} elements, first at {list(at)} of {operands}: {got[at].item()!r}, eager has {want[at].item()!r}"


def together(title, cases, aten_where_rows_vary=False):
    """One function of all the cases; its title makes its key its own. What leaves some of them to ATen where the number of rows varies
    asks for it."""
    def run(x, y, tame, mask, row, one, pick, rows):
        given = Inputs(x, y, tame, mask, row, one, pick, rows)
        if aten_where_rows_vary and x.shape[0] != 5:
            return title, []
        return title, [case.call(given) for case in cases]

    return run


class Runner:
    """Cases compiled as one function; results are compared case by case."""

    def __init__(self, ingot, title, cases, aten=None, dynamic=None, aten_where_rows_vary=False):
        self.ingot, self.title, self.cases, self.aten = ingot, title, cases, aten
        self.function = together(title, cases, aten_where_rows_vary)
        self.step = ingot.compile(self.function, wait=True, on_unsupported="error", dynamic=dynamic)
        self.wrong: "dict[str, list[str]]" = {}   # by case

    def check(self, where, known, fresh):
        """Records ``known`` where that is new; then native calls, on it and on ``fresh``, must equal eager."""
        self.step(*known)
        # Where the last digits of bf16 decide, the next calls are held against eager instead (docs/agreed.md).
        for _ in range(3):
            before = self.ingot.stats()["native_calls"]
            self.step(*known)
            if self.ingot.stats()["native_calls"] > before:
                break
        before = self.ingot.stats()["native_calls"]
        results = [self.step(*known)[1], self.step(*fresh)[1]]
        if self.ingot.stats()["native_calls"] != before + 2:
            self.wrong.setdefault("native code", []).append(f"{where}: did not serve: {self.step.report()}")
            return
        for given, got in zip((known, fresh), results):
            for case, a, b in zip(self.cases, got, self.function(*given)[1]):
                pairs = enumerate(zip(a, b)) if isinstance(b, (list, tuple)) else [(0, (a, b))]
                for what in (difference(case, given, part, *pair) for part, pair in pairs):
                    if what:
                        self.wrong.setdefault(case.name, []).append(f"{where}: {what}")

    def finish(self, kind):
        """Fails with one line for each case that differed, or where the compile was not what it should be."""
        lines = [f"{name} {self.title} {where[0]}" + (f" (and {len(where) - 1} more)" if len(where) > 1 else "") for name, where in self.wrong.items()]
        assert not lines, "\n" + "\n".join(lines)
        variants = self.step.variants
        assert [v["kind"] for v in variants] == [kind] * len(variants), self.step.report()
        if self.aten is not None:
            # Sizes of 0 and 1 have templates of their own, which may need more or less.
            steps = [v["aten_steps"] for v in variants]
            assert max(steps) > 0 if self.aten else min(steps) == 0, self.step.as_text("plan")


def split(cases, dtype, fixed):
    """Cases that become kernels for the type, and those left to ATen."""
    taken = [case for case in cases if dtype in case.types]
    left = [case for case in taken if dtype in case.left or case.fixed and not fixed]
    return [(False, [case for case in taken if case not in left]), (True, left)]


@pytest.fixture(autouse=True)
def plain_eager():
    """Without gradients, and on one thread: eager's loops are short."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


def test_every_rule_has_a_case():
    listed = subprocess.run([str(BIN.parent / "tools" / "ingot-opt"), "--rules"], check=True, capture_output=True, text=True).stdout.split()
    quantized = {op for op in listed if op.startswith("quantized_decomposed.")}
    assert set(listed) - quantized == {case.op for cases in FAMILIES.values() for case in cases}
    tests = (pathlib.Path(__file__).parent / "test_quantized_graphs.py").read_text()
    assert not [op for op in quantized if f"OPS.{op.partition('.')[2]}(" not in tests]


@pytest.mark.parametrize("dtype", MOVED)
@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_of_a_template(ingot, family, dtype):
    wild = family not in ("reduce", "product", "windows")
    for aten, cases in split(FAMILIES[family], dtype, fixed=False):
        if cases:
            runner = Runner(ingot, f"{family} {dtype}{' left' if aten else ''}", cases, aten, aten_where_rows_vary=family == "reduce")
            for n in SIZES:
                runner.check(f"n={n}", inputs(dtype, [5, n], n, False), inputs(dtype, [5, n], n + 100, wild))
            runner.finish("template")
            graph = runner.step.as_text("graph")
            assert not [case.name for case in cases if f" {case.recorded or case.op}(" not in graph], graph


LAYOUTS = {
    "one column": ([5, 1], lambda t: t),
    "fixed": ([5, 33], lambda t: t),
    "transposed": ([5, 17], lambda t: t.t().contiguous().t()),
    "every second column": ([5, 17], lambda t: torch.stack([t, t], -1).flatten(1)[:, ::2]),
    "offset": ([5, 9], lambda t: torch.cat([t[:1], t])[1:]),
    "expanded row": ([5, 16], lambda t: t[:1].clone().expand(5, -1)),
    "expanded column": ([5, 16], lambda t: t[:, :1].clone().expand(-1, 16)),
    "no columns": ([5, 0], lambda t: t),
    "no rows": ([0, 8], lambda t: t),
    "rank 0": ([], lambda t: t),
}


def is_taken(case, given):
    """Whether torch takes these sizes and strides: views need their strides, maxima an element."""
    try:
        case.call(given)
        return True
    except (RuntimeError, IndexError):
        return False


@pytest.mark.parametrize("dtype", ("float32", "bfloat16", "int64", "bool"))   # elements of 4, 2, 8 and 1 bytes
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(ingot, layout, dtype):
    sizes, place = LAYOUTS[layout]
    taken = 0
    for family, cases in FAMILIES.items():
        wild = family not in ("reduce", "product", "windows")
        known, fresh = (inputs(dtype, sizes, seed, wild, place) for seed in (1, 2))
        part = [case for case in cases if dtype in case.types and is_taken(case, known)]
        # Reductions of several dims that do not collapse into one, and views of nothing, stay with ATen.
        groups = split(part, dtype, fixed=True) if family in ("pointwise", "casts") else [(None, part)]
        for aten, chosen in groups:
            if chosen:
                runner = Runner(ingot, f"{family} {dtype} {layout}{' left' if aten else ''}", chosen, aten, dynamic=False)
                runner.check(layout, known, fresh)
                runner.finish("exact")
        taken += len(part)
    assert taken > 100


@pytest.mark.parametrize("left,right", [*PAIRS, *((right, left) for left, right in PAIRS)])
def test_mixed_types(ingot, left, right):
    cases = [case for case in MIXED if left in case.types and is_taken(case, inputs(left, [5, 33], 1, other=right))]
    runner = Runner(ingot, f"{left} with {right}", cases, dynamic=False)
    runner.check("n=33", inputs(left, [5, 33], 1, other=right), inputs(left, [5, 33], 2, other=right))
    runner.finish("exact")
