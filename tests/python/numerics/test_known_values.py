# SPDX-License-Identifier: Apache-2.0
"""Every operator with a rule on values that the compiler knows, which it computes itself where it can, against eager."""

import pytest
import torch

from op_cases import ALL, FAMILIES, Inputs
from test_values import difference, inputs, plain_eager  # noqa: F401

# Of these no operand has to be computed by a machine.
FOLDED = ("eq.Tensor", "ne.Tensor", "lt.Tensor", "le.Tensor", "gt.Tensor", "ge.Tensor", "where.ScalarSelf")
SIZES = ([5, 8], [2, 3])


def lists(given):
    return [(t.tolist(), t.dtype) for t in given]


def known(fields):
    """Tensors that a program makes of numbers of its own."""
    return Inputs(*[torch.tensor(numbers, dtype=dtype) for numbers, dtype in fields])


def used(result, never):
    """The same values, read by one more operator."""
    return [torch.where(never, torch.zeros_like(part), part) for part in (result if isinstance(result, (list, tuple)) else [result])]


def takes(case, given):
    try:
        case.call(given)
    except (RuntimeError, IndexError, ValueError):   # whatever eager refuses
        return False
    return True


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("family", ("pointwise", "casts", "reduce", "move", "view"))
def test_known_values(ingot, family, dtype):
    wrong = []
    # Eager's gelu of infinity is NaN, or not, as its vectors fall: the cases allow for that, and what is compared by itself does of inputs alone.
    config = ingot.Config(agree="off")
    for number, sizes in enumerate(SIZES):
        fields = lists(inputs(dtype, sizes, number, wild=family != "reduce"))
        cases = [case for case in FAMILIES[family] if dtype in case.types and takes(case, known(fields))]
        if not cases:
            continue

        def function(never, cases=cases, fields=fields, title=f"{family} {dtype} {sizes}"):
            given = known(fields)
            # What only a caller sees is made by its operator at each call.
            return title, [used(case.call(given), never) for case in cases]

        step = ingot.compile(function, wait=True, on_unsupported="error", config=config)
        never = torch.tensor(False)
        for _ in range(3):
            before = ingot.stats()["native_calls"]
            results = step(never)[1]
        assert ingot.stats()["native_calls"] > before, step.report()
        for case, got, want in zip(cases, results, function(never)[1]):
            for part, (a, b) in enumerate(zip(got, want)):
                if what := difference(case, known(fields), part, a, b):
                    wrong.append(f"{case.name} {sizes}: {what}")
        if family == "pointwise" and dtype not in ("bfloat16", "float16"):
            left = step.as_text("optimized")
            assert not [op for op in FOLDED if f" aten.{op}(" in left], left
    assert not wrong, "\n".join(wrong)
