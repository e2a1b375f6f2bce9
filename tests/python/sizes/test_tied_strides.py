# SPDX-License-Identifier: Apache-2.0
"""Layouts of results where two dims of an operand have one stride, as windows of `unfold` do: PyTorch walks those by their sizes, so that
another call's sizes may turn a result around."""

import itertools
import os
import random

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
    except (RuntimeError, ValueError, IndexError) as error:
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


# Views of a matrix whose strides are equal at some sizes, or whose dims are of size 1 there, and those sizes.
WEIGHT = torch.randn(4, 1, 3, generator=torch.Generator().manual_seed(1))
VIEWS = {
    "windows a part of all apart": (lambda x: x.unfold(0, 3, x.shape[0] // 4), [(12, 9), (4, 9), (10, 40), (8, 2)]),
    "windows of rows": (lambda x: x.unfold(1, 2, x.shape[1] // 3), [(12, 9), (6, 3), (2, 5)]),
    "windows of one row": (lambda x: x[0].unfold(0, 4, x.shape[1] // 5), [(2, 10), (3, 15), (2, 5), (2, 6)]),
    "blocks": (lambda x: x.view(x.shape[0] // 2, 2, x.shape[1] // 2, 2).permute(0, 2, 1, 3), [(8, 2), (8, 8), (2, 6), (2, 2)]),
    "a turned view": (lambda x: x.view(2, -1).t(), [(2, 2), (2, 1), (4, 4), (1, 2)]),
    "a turned half": (lambda x: x[:, x.shape[1] // 2 :].t(), [(3, 2), (3, 8), (2, 3)]),
    "a turned rest": (lambda x: (x[:, None, 1:] * torch.ones(1, 4, 1)).transpose(1, 2), [(3, 2), (3, 9), (2, 3)]),
    "a turned convolution": (lambda x: F.conv1d(x[:, None], WEIGHT).transpose(1, 2), [(2, 3), (2, 9), (3, 4)]),
    "channels last": (lambda x: F.conv1d(x[:, None], WEIGHT).transpose(1, 2).unflatten(2, (2, 2)).movedim(-1, 1), [(2, 3), (2, 9), (3, 4)]),
}


def where_it_lies(found):
    """Strides of dims of size 1 address nothing."""
    return found if len(found) == 1 else (found[0], [stride for stride, size in zip(found[1], found[2]) if size > 1], *found[2:])


def write_all(y):
    y.reshape(-1).zero_()
    return y


VIEW_OPERATORS = {
    "gelu": F.gelu, "silu": F.silu, "relu": torch.relu, "double": lambda y: y.double(),
    "plus 0": lambda y: y + 0, "plus rows": lambda y: y + y.contiguous(), "rows plus it": lambda y: y.contiguous() + y,
    "a difference": lambda y: y[1:] - y[:-1], "where": lambda y: torch.where(y > 0, y, 0.0), "a row more": lambda y: y * torch.ones(y.shape[-1]),
    "clone": lambda y: y.clone(), "empty_like": lambda y: torch.empty_like(y).fill_(1.0), "flip": lambda y: y.flip(-1), "cat": lambda y: torch.cat([y, y], -1),
    "stack": lambda y: torch.stack([y, y]), "pad": lambda y: F.pad(y, (1, 1)), "tril": lambda y: y.tril(),
    "unsqueeze": lambda y: y.unsqueeze(1) * 2, "movedim": lambda y: y.movedim(0, -1) * 1, "add_": lambda y: y.clone().add_(1),
    "index_put": lambda y: y.index_put((torch.tensor([0]),), torch.tensor(2.0)),
    "index_select": lambda y: y.index_select(0, torch.tensor([0, 0])), "gather": lambda y: y.gather(-1, y.long() * 0),
    "sum": lambda y: y.sum(-1, keepdim=True), "sum of a dim": lambda y: y.sum(0), "norm": lambda y: y.norm(dim=-1, keepdim=True),
    "normalize": lambda y: F.normalize(y, dim=-1), "softmax": lambda y: y.softmax(-1), "layer_norm": lambda y: F.layer_norm(y, y.shape[-1:]),
    "cumsum": lambda y: y.cumsum(0), "sort": lambda y: y.sort(-1)[0], "topk": lambda y: y.topk(1, 0)[0], "diff": lambda y: y.diff(),
    "matmul": lambda y: y @ y.mT, "linear": lambda y: F.linear(y, torch.ones(3, y.shape[-1])), "einsum": lambda y: torch.einsum("...ab,...cb->...ac", y, y),
    "attention": lambda y: F.scaled_dot_product_attention(y, y, y), "avg_pool1d": lambda y: F.avg_pool1d(y, 2, 1, 1), "adaptive_avg_pool1d": lambda y: F.adaptive_avg_pool1d(y, 2),
    "max_pool2d": lambda y: F.max_pool2d(y, 2, 1, 1), "max_pool1d": lambda y: F.max_pool1d(y, 2, 1, 1), "avg_pool2d": lambda y: F.avg_pool2d(y, 2, 1, 1),
    "conv1d": lambda y: F.conv1d(y, torch.ones(2, y.shape[1], 2), padding=1), "rfft": lambda y: torch.fft.rfft(y, dim=0).real, "fft": lambda y: torch.fft.fft(y).imag,
    "a view after it": lambda y: F.gelu(y).view(-1), "a write after it": lambda y: write_all(F.gelu(y)),
}


CELLS = list(itertools.product(VIEW_OPERATORS, VIEWS))
# All of them take minutes: INGOT_ALL_CELLS=1.
SOME = CELLS if os.environ.get("INGOT_ALL_CELLS") else sorted({*random.Random(45).sample(CELLS, 80), ("avg_pool2d", "channels last"), ("gelu", "a turned convolution")})


@pytest.mark.parametrize("name, view", SOME)
def test_strides_that_tie_at_some_sizes(ingot, name, view):
    (make, sizes), operator = VIEWS[view], VIEW_OPERATORS[name]
    given = [torch.randn(pair, generator=torch.Generator().manual_seed(3)) for pair in sizes]
    for first in range(len(sizes)):
        def function(x):
            return operator(make(x))

        step = ingot.compile(function, wait=True, config=ingot.Config(agree="off"))
        with torch.no_grad():
            for x in [given[first], given[first], *given]:
                found, wanted = where_it_lies(outcome(step, x.clone())), where_it_lies(outcome(function, x.clone()))
                assert found[:-1] == wanted[:-1], (sizes[first], x.shape)
                if len(wanted) > 1:
                    torch.testing.assert_close(found[-1], wanted[-1], rtol=1e-4, atol=1e-5, equal_nan=True)
