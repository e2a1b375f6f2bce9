# SPDX-License-Identifier: Apache-2.0
"""Composites in parts: eager's values, types and layouts, at open and at fixed sizes, by kernels alone."""

import pytest
import torch
from torch import nn
from torch.nn import functional


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


class Steps(nn.Module):
    """Three steps of a cell."""

    def __init__(self, cell, states):
        super().__init__()
        self.cell, self.states = cell, states

    def forward(self, x, h):
        state = (h, h * 2) if self.states == 2 else h
        for _ in range(3):
            state = self.cell(x, state)
        return state


def affine(norm):
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return norm


def encoder_layer(**also):
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, **also).eval()


IMAGES = ([(2, 8, 9, 7)], [(3, 8, 11, 5)])
ROWS = ([(33, 17)], [(40, 20)], [(5, 2)])
BOTH = (torch.float32, torch.bfloat16)
F32 = (torch.float32,)
CELL = ([(4, 16), (4, 32)], [(7, 16), (7, 32)])
SEQUENCES = ([(2, 9, 32)], [(3, 7, 32)], [(1, 5, 32)])

CASES = {
    "var_mean": (lambda: lambda x: torch.var_mean(x, 0), ROWS, BOTH),
    "std_mean": (lambda: lambda x: torch.std_mean(x, -1, correction=0, keepdim=True), ROWS, BOTH),
    "std": (lambda: lambda x: x.std(-1), ROWS, BOTH),
    "var of all": (lambda: lambda x: x.var(), ROWS, BOTH),
    "var with few elements": (lambda: lambda x: x.var(0, correction=5), ([(33, 17)], [(5, 3)], [(4, 3)]), F32),
    "group_norm": (lambda: affine(nn.GroupNorm(4, 8)), (*IMAGES, [(1, 8, 4, 4)]), F32),
    "group_norm bf16": (lambda: affine(nn.GroupNorm(4, 8)).bfloat16(), IMAGES, (torch.bfloat16,)),
    "group_norm of one group": (lambda: lambda x: functional.group_norm(x, 1, x[0, :, 0, 0], x[1, :, 0, 0], 0.1), IMAGES, (torch.float32, torch.float64, torch.float16)),
    "group_norm, silu": (lambda: lambda x: functional.silu(functional.group_norm(x, 4)), ([(2, 8, 9)], [(3, 8, 50)]), BOTH),
    "group_norm of rows": (lambda: lambda x: functional.group_norm(x, 2), ([(6, 8)], [(3, 8)]), BOTH),
    "instance_norm": (lambda: lambda x: functional.instance_norm(x), IMAGES, BOTH),
    "instance_norm affine": (lambda: affine(nn.InstanceNorm1d(8, affine=True)), ([(2, 8, 9)], [(3, 8, 50)]), F32),
    "outer": (lambda: lambda a, b: torch.outer(a, b) + 1, ([(5,), (7,)], [(9,), (3,)]), BOTH),
    "einsum of heads": (lambda: lambda a, b: torch.einsum("bqhd,bkhd->bhqk", a, b), ([(2, 9, 4, 8), (2, 7, 4, 8)], [(3, 5, 4, 8), (3, 6, 4, 8)]), BOTH),
    "einsum of values": (lambda: lambda a, b: torch.einsum("bhqk,bkhd->bqhd", a, b), ([(2, 4, 9, 7), (2, 7, 4, 8)], [(3, 4, 5, 6), (3, 6, 4, 8)]), F32),
    "einsum swapped": (lambda: lambda a, b: torch.einsum("ij,kj->ki", a, b), ([(5, 7), (6, 7)], [(8, 3), (9, 3)]), BOTH),
    "einsum without an arrow": (lambda: lambda a, b: torch.einsum("ij, jk", a, b), ([(5, 7), (7, 6)], [(8, 3), (3, 9)]), F32),
    "einsum of two sums": (lambda: lambda a, b: torch.einsum("aijk,ijkc->ac", a, b), ([(5, 2, 3, 4), (2, 3, 4, 6)], [(8, 2, 3, 4), (2, 3, 4, 9)]), F32),
    "lstm_cell": (lambda: Steps(nn.LSTMCell(16, 32), 2), CELL, F32),
    "lstm_cell bf16": (lambda: Steps(nn.LSTMCell(16, 32, bias=False).bfloat16(), 2), CELL, (torch.bfloat16,)),
    "gru_cell": (lambda: Steps(nn.GRUCell(16, 32), 1), CELL, F32),
    "rnn_tanh_cell": (lambda: Steps(nn.RNNCell(16, 32), 1), CELL, F32),
    "rnn_relu_cell": (lambda: Steps(nn.RNNCell(16, 32, nonlinearity="relu"), 1), CELL, F32),
    "encoder layer": (encoder_layer, SEQUENCES, F32),
    "encoder layer, gelu, norm first": (lambda: encoder_layer(activation="gelu", norm_first=True), SEQUENCES, F32),
    "encoder": (lambda: nn.TransformerEncoder(encoder_layer(), 2).eval(), SEQUENCES[:2], F32),
}


def assert_like(got, want, dtype):
    for a, b in zip(want if isinstance(want, (tuple, list)) else [want], got if isinstance(got, (tuple, list)) else [got], strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype and a.stride() == b.stride()
        bound = 1e-5 if dtype == torch.float32 else 2e-2
        torch.testing.assert_close(b, a, rtol=bound, atol=bound, equal_nan=True)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("dynamic", (None, False), ids=("open", "fixed"))
@pytest.mark.parametrize("name", CASES)
def test_parts_are_kernels_and_give_what_eager_gives(ingot, name, dynamic):
    make, shapes, dtypes = CASES[name]
    for dtype in dtypes:
        torch.manual_seed(0)
        function = make()
        step = ingot.compile(function, wait=True, dynamic=dynamic)
        for sizes in shapes:
            for _ in range(2):
                args = [torch.randn(size).to(dtype) for size in sizes]
                before = ingot.stats()["native_calls"]
                got = step(*args)
                assert_like(got, function(*args), dtype)
            assert ingot.stats()["native_calls"] == before + 1, step.report()
        if name != "var with few elements" or dynamic is None:
            assert {v["aten_steps"] for v in step.variants} == {0}, step.as_text("plan")


FIXED = {
    "roll": (lambda x: torch.roll(x, (3, -2), (1, 2)) + 1, (2, 8, 9, 7)),
    "roll beyond the size": (lambda x: torch.roll(x, -11, 1), (2, 8, 9)),
    "pixel_shuffle": (lambda x: functional.pixel_shuffle(x, 2) * 2, (2, 8, 9, 7)),
    "pixel_unshuffle": (lambda x: functional.pixel_unshuffle(x, 2) * 2, (2, 3, 8, 6)),
    "einsum of an ellipsis": (lambda x: torch.einsum("...ij,...kj->...ik", x, x + 1), (2, 3, 4, 5)),
    "einsum that sums nothing": (lambda x: torch.einsum("ij,ij->ij", x, x + 1), (4, 5)),
    "einsum with a size of one": (lambda x: torch.einsum("ij,ij->j", x, x[:1]), (4, 5)),
    "group_norm of channels last": (lambda x: functional.group_norm(x.contiguous(memory_format=torch.channels_last), 4), (2, 8, 9, 7)),
}


@pytest.mark.parametrize("name", FIXED)
def test_moves_and_what_stays_whole_give_what_eager_gives(ingot, name):
    function, size = FIXED[name]
    for dtype in BOTH:
        step = ingot.compile(function, wait=True, dynamic=False)
        for _ in range(2):
            x = torch.randn(size).to(dtype)
            assert_like(step(x), function(x), dtype)
        if name.startswith(("roll", "pixel")):
            assert {v["aten_steps"] for v in step.variants} == {0}, step.as_text("plan")


@pytest.mark.parametrize("factor, size", ((2, (2, 8, 1, 1)), (1, (2, 8, 3, 3))))
def test_results_share_no_memory_that_eager_keeps_apart(ingot, factor, size):
    def function(x):
        doubled = x * 2
        return doubled, functional.pixel_shuffle(doubled, factor)

    step = ingot.compile(function, wait=True, dynamic=False)
    for _ in range(3):
        doubled, shuffled = step(torch.randn(size))
        before = doubled.clone()
        shuffled.add_(1)
        assert torch.equal(doubled, before)


def test_numerics_of_eager_keep_composites_whole(ingot):
    function = lambda x: functional.group_norm(x, 4)  # noqa: E731
    step = ingot.compile(function, config=ingot.Config(numerics="eager", wait=True))
    for _ in range(2):
        x = torch.randn(2, 8, 9).bfloat16()
        assert torch.equal(step(x), function(x))
