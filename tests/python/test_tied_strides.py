# SPDX-License-Identifier: Apache-2.0
"""Layouts of results where two dims of an operand have one stride, as windows of `unfold` do: PyTorch walks those by their sizes, so that
another call's sizes may turn a result around."""

import itertools

import pytest
import torch
from torch.nn import functional as F

OPERATORS = {
    "sort": lambda x: x.sort(-1)[0], "sort's places": lambda x: x.sort(-1)[1], "a stable sort": lambda x: x.sort(dim=1, stable=True)[0],
    "argsort": lambda x: x.argsort(1), "msort": torch.msort, "diff": lambda x: x.diff(), "diff of rows": lambda x: x.diff(dim=1), "glu": lambda x: F.glu(x, 0),
    "cumsum": lambda x: x.cumsum(1), "cummax": lambda x: x.cummax(1)[0], "logcumsumexp": lambda x: x.logcumsumexp(1), "softmax": lambda x: x.softmax(-1),
    "topk": lambda x: x.topk(2, -1)[0], "kthvalue": lambda x: x.kthvalue(1, -1, keepdim=True)[0], "sum": lambda x: x.sum(1, keepdim=True), "sum of a dim": lambda x: x.sum(1),
    "max": lambda x: x.max(1, keepdim=True)[0], "mean": lambda x: x.mean(0), "norm": lambda x: x.norm(dim=1, keepdim=True), "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "a pointwise one": lambda x: x * 2, "two": lambda x: x + x.flip(1), "where": lambda x: torch.where(x > 0, x, 0), "clone": lambda x: x.clone(), "to": lambda x: x.double(),
    "zeros_like": torch.zeros_like, "flip": lambda x: x.flip(1), "roll": lambda x: x.roll(1, 1), "cat": lambda x: torch.cat([x, x], 1), "stack": lambda x: torch.stack([x, x]),
    "pad": lambda x: F.pad(x, (1, 1)), "index_select": lambda x: x.index_select(1, torch.tensor([0, 1])), "gather": lambda x: x.gather(1, x.long() * 0),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1), "tril": lambda x: x.tril(), "repeat": lambda x: x.repeat(1, 2, 1), "a product": lambda x: x @ x.transpose(1, 2),
    "renorm": lambda x: x.renorm(2, 0, 1.0), "normalize": lambda x: F.normalize(x, dim=-1), "searchsorted": lambda x: torch.searchsorted(x[0, 0].contiguous(), x),
    "bucketize": lambda x: torch.bucketize(x, torch.arange(3.0)), "addcmul": lambda x: torch.addcmul(x, x, x), "lerp": lambda x: torch.lerp(x, x * 2, 0.5),
    "quantile": lambda x: x.quantile(0.5, 1),
    "a cumulative product": lambda x: x.cumprod(-1), "scatter": lambda x: x.scatter(1, x.long() * 0, 1.0), "take_along_dim": lambda x: x.take_along_dim(x.long() * 0, 1),
}
LAYOUTS = {
    "windows": lambda n, m, k: torch.randn(n, m + k - 1).unfold(1, k, 1),
    "two equal strides": lambda n, m, k: torch.randn(n * m * k * 5).as_strided((n, m, k), (7, 7, 1)),
}
SIZES = [(4, 4, 4), (4, 6, 3), (2, 3, 5), (6, 2, 2), (2, 8, 3), (2, 3, 3), (8, 3, 4)]


def outcome(function, x):
    try:
        y = function(x)
        return y.dtype, y.stride(), y.shape, y.is_contiguous(), y
    except RuntimeError as error:
        return (type(error),)


@pytest.mark.parametrize("name, layout", itertools.product(OPERATORS, LAYOUTS))
def test_results_lie_as_eagers(ingot, name, layout):
    function, given = OPERATORS[name], [LAYOUTS[layout](*sizes) for sizes in SIZES]
    step = ingot.compile(lambda x: function(x), wait=True, config=ingot.Config(agree="off"))
    torch.manual_seed(0)
    with torch.no_grad():
        for x in given + given:
            found, wanted = outcome(step, x), outcome(function, x)
            assert found[:-1] == wanted[:-1], (x.shape, x.stride())
            if len(wanted) > 1:
                torch.testing.assert_close(found[-1], wanted[-1], rtol=1e-4, atol=1e-5, equal_nan=True)
