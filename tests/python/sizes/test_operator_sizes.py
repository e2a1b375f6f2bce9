# SPDX-License-Identifier: Apache-2.0
"""Operators with a rule for sizes: one recording, and every other size is native and eager's, layout included."""

import pathlib
import re

import pytest
import torch
from torch.nn import functional as F

from test_one_recording import counted

IMAGES = [(2, 3, 12, 17), (2, 3, 9, 14), (2, 3, 30, 8), (2, 3, 21, 21), (2, 3, 10, 33)]
ROWS = [(2, 13, 8), (2, 9, 8), (2, 21, 8), (2, 6, 8), (2, 30, 8)]
WAVES = [(2, 400), (2, 437), (3, 501), (2, 333)]
WINDOW = torch.hann_window(64)
ATTENTION = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
MASK = torch.nn.Transformer.generate_square_subsequent_mask
PAIRS = [(5, 7), (9, 4), (6, 6), (3, 20)]

def masks_windows(x, window=3):
    """As shifted windows tell their regions apart."""
    mask, count = torch.zeros(1, *x.shape[2:], 1), 0
    for rows in (slice(0, -window), slice(-window, -1), slice(-1, None)):
        for columns in (slice(0, -window), slice(-window, -1), slice(-1, None)):
            mask[:, rows, columns, :] = count
            count += 1
    return mask[..., 0] + x


def puts_into_a_window(x):
    y = x.clone()
    y[1:, 2:][:, x.shape[1] // 2] = x[1:, 0]
    return y


def windows(x, window=4):
    """As Swin attends in shifted windows."""
    batch, height, width, channels = x.shape
    right, below = (window - width % window) % window, (window - height % window) % window
    y = F.pad(x, (0, 0, 0, right, 0, below)).roll((-2, -2), (1, 2))
    _, rows, columns, _ = y.shape
    parts = y.view(batch, rows // window, window, columns // window, window, channels).permute(0, 1, 3, 2, 4, 5).contiguous()
    parts = parts.view(-1, window * window, channels)
    parts = (parts @ parts.transpose(1, 2)).softmax(-1) @ parts
    y = parts.view(batch, rows // window, columns // window, window, window, channels).permute(0, 1, 3, 2, 4, 5).contiguous()
    return y.view(batch, rows, columns, channels).roll((2, 2), (1, 2))[:, :height, :width, :].contiguous()


def unshuffles(x):
    y = x.view(x.shape[0], 3, x.shape[2] // 2, 2, x.shape[3] // 2, 2).permute(0, 1, 3, 5, 2, 4)
    return y.reshape(x.shape[0], 12, x.shape[2] // 2, x.shape[3] // 2)


class UNet(torch.nn.Module):
    """What a convolution with a stride halved is doubled, and padded to what it was."""

    def __init__(self):
        super().__init__()
        self.down, self.below = torch.nn.Conv2d(3, 4, 3, 2, 1), torch.nn.Conv2d(4, 4, 3, 2, 1)
        self.up = torch.nn.ConvTranspose2d(4, 4, 2, 2)

    def forward(self, x):
        skipped = self.down(x)
        y = self.up(self.below(skipped))
        height, width = skipped.shape[2] - y.shape[2], skipped.shape[3] - y.shape[3]
        y = F.pad(y, [width // 2, width - width // 2, height // 2, height - height // 2])
        return torch.cat([skipped, y], 1)


class Cache(torch.nn.Module):
    """Keys of a fixed length, filled from the front."""

    def __init__(self):
        super().__init__()
        self.keys = torch.zeros(2, 64, 4)
        self.position = 0

    def forward(self, x):
        count = x.shape[1]
        self.keys[:, self.position : self.position + count] = x
        self.position += count
        return self.keys[:, : self.position].sum(1)


# What is called, the shapes of its one argument: the first is recorded.
CASES = {
    "meshgrid": (lambda x: torch.meshgrid(torch.arange(x.shape[0]) * 1.0, torch.arange(x.shape[1]) * 1.0, indexing="ij")[0] + x, PAIRS),
    "meshgrid xy": (lambda x: torch.stack(torch.meshgrid(torch.arange(x.shape[0]), torch.arange(x.shape[1]), indexing="xy")), PAIRS),
    "broadcast_tensors": (lambda x: torch.broadcast_tensors((x * 2)[:, :1], x[:1] + 1)[1] * 2, PAIRS),
    "broadcast_to": (lambda x: torch.broadcast_to((x * 2)[:, :1], x.shape) + 1, PAIRS),
    "interpolate by 2": (lambda x: F.interpolate(x * 1.0, scale_factor=2) + 1, IMAGES),
    "interpolate by 0.5": (lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"), IMAGES),
    "interpolate by 1.5": (lambda x: F.interpolate(x, scale_factor=(1.5, 0.25), mode="bicubic") * 2, IMAGES),
    "interpolate, antialias": (lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True), IMAGES),
    "interpolate rows": (lambda x: F.interpolate(x.transpose(1, 2), scale_factor=2.0, mode="linear", align_corners=True), ROWS),
    "interpolate volumes": (lambda x: F.interpolate(x[:, :, None], scale_factor=(3.0, 1.25, 2.0), mode="trilinear"), IMAGES),
    "interpolate exactly": (lambda x: F.interpolate(x, scale_factor=0.75, mode="nearest-exact"), IMAGES),
    "slice_scatter": (lambda x: torch.slice_scatter(x, x[:, 3:] * 2, 1, 0, x.shape[1] - 3), ROWS),
    "select_scatter": (lambda x: torch.select_scatter(x, x[:, 0] * 2, 1, x.shape[1] - 2), ROWS),
    "stores by slices": (masks_windows, IMAGES),
    "stores into slices": (puts_into_a_window, [(5, 9, 2), (3, 7, 2), (8, 8, 3), (2, 20, 2)]),
    "splits what is a number": (lambda x: x.view(x.shape[0], -1, 2, 4).transpose(1, 2) * 2, ROWS),
    "splits what divides": (lambda x: (x * 1).view(x.shape[0], -1, 4) + 1, [(2, 12), (3, 8), (5, 20), (2, 32)]),
    "splits by a quotient": (lambda x: (x * 1).unflatten(1, (x.shape[1] // 4, 4)) + 1, [(2, 12), (3, 8), (5, 20), (2, 32)]),
    "merges and splits": (lambda x: (x.transpose(1, 2) * 1).reshape(x.shape[0] * 4, -1, 2) + 1, [(2, 13, 4, 2), (3, 8, 4, 2), (5, 21, 4, 2)]),
    "windows": (windows, [(2, 13, 17, 3), (2, 9, 22, 3), (3, 23, 13, 3), (2, 17, 29, 3), (2, 11, 10, 3)]),
    "unshuffles": (unshuffles, [(2, 3, 12, 18), (2, 3, 8, 14), (3, 3, 22, 6), (2, 3, 10, 10)]),
    "conv, same": (lambda x: F.conv2d(x, torch.ones(4, 3, 3, 3) / 9, padding="same", dilation=2), IMAGES),
    "conv, valid": (lambda x: F.conv1d(x.transpose(1, 2), torch.ones(6, 8, 3), padding="valid", stride=2), ROWS),
    "conv_transpose1d": (lambda x: F.conv_transpose1d(x.transpose(1, 2), torch.ones(8, 3, 4), torch.ones(6), 3, 1, 2, 2), ROWS),
    "conv_transpose2d": (lambda x: F.conv_transpose2d(x, torch.ones(3, 4, 2, 3), stride=2, dilation=(1, 2)), IMAGES),
    "conv_transpose3d": (lambda x: F.conv_transpose3d(x[:, :, None], torch.ones(3, 4, 1, 2, 3), None, (1, 2, 2)), IMAGES),
    "pad to a size": (lambda x: F.pad(x, (0, 0, 0, 64 - x.shape[1])) + 1, ROWS),
    "pad to a multiple": (lambda x: F.pad(x, (0, 0, 0, -(-x.shape[1] // 4) * 4 - x.shape[1])) * 2, [(2, 13, 8), (3, 9, 8), (2, 21, 7), (4, 5, 8)]),
    "pads to windows": (lambda x: F.pad(x, (0, (8 - x.shape[3] % 8) % 8, 0, -x.shape[2] % 8)) + 1, [(2, 3, 12, 17), (2, 3, 9, 14), (2, 2, 30, 26)]),
    "pads to windows or not": (lambda x: F.pad(x, (0, (8 - x.shape[3] % 8) % 8, 0, -x.shape[2] % 8)) + 2, [(2, 3, 12, 17), (2, 3, 16, 8), (2, 3, 9, 16), (2, 2, 30, 26)]),
    "pads to a length or not": (lambda x: F.pad(x, (0, 0, 0, max(16 - x.shape[1], 0))) * 2, ROWS),
    "up to a length": (lambda x: x[:, : min(x.shape[1], 12)] * 2 + min(x.shape[1], 12), ROWS),
    "from a length on": (lambda x: x[:, max(x.shape[1] - 10, 0) :].cumsum(1) / max(x.shape[1], 10), ROWS),
    "every third": (lambda x: x[:, ::3] * 2 + x[:, 1 :: 3][:, :1], ROWS),
    "halves": (lambda x: (lambda h: x[:, :h] + x[:, -h:])(x.shape[1] // 2), ROWS),
    "patches": (lambda x: F.conv2d(x, torch.ones(8, 3, 4, 4) / 48, stride=4).flatten(2).transpose(1, 2).softmax(-1), IMAGES),
    "strides one after the other": (lambda x: F.max_pool2d(F.conv2d(x, torch.ones(4, 3, 3, 3) / 27, stride=2, padding=1).relu(), 3, 2, 1) * 2, IMAGES),
    "a multiple above": (lambda x: x.new_ones((x.shape[1] + 7) // 8 * 8, 3).sum() + x, ROWS),
    "max_pool1d, ceil, with gaps": (lambda x: F.max_pool1d(x.transpose(1, 2), 2, 3, ceil_mode=True) + 1, ROWS),
    "cuts what is left over": (lambda x: x[:, : x.shape[1] - x.shape[1] % 4].reshape(x.shape[0], -1, 4, 8).mean(2), ROWS),
    "pad by a quotient": (lambda x: F.pad(x, (x.shape[3] // 4, x.shape[3] // 4, 1, 1), mode="reflect"), IMAGES),
    "pad by cutting": (lambda x: F.pad(x, (-(x.shape[3] // 4), 2, x.shape[2] // 2, -1)), IMAGES),
    "pads what is skipped": (UNet().eval(), [(2, 3, 20, 28), (2, 3, 36, 44), (2, 3, 52, 20)]),
    "chunk": (lambda x: [part * 2 for part in torch.chunk(x, 3, 1)], [(2, 13, 8), (2, 9, 8), (3, 21, 7), (2, 30, 8)]),
    "chunk what is a number": (lambda x: (lambda a, b: a * b.sigmoid())(*x.chunk(2, -1)), ROWS),
    "split": (lambda x: torch.cat([part.relu() for part in x.split(8, 1)], 1), [(2, 13, 8), (3, 9, 8), (2, 16, 7), (2, 10, 8)]),
    "split by a quotient": (lambda x: [part.sum(1) for part in x.split(x.shape[1] // 2, 1)], [(2, 13, 8), (3, 9, 8), (2, 21, 7)]),
    "tensor_split": (lambda x: [part.sum(1) for part in x.tensor_split(3, 1)], ROWS),
    "tensor_split at": (lambda x: [part * 2 for part in (x * 1).tensor_split((2, x.shape[1] - 1), 1)], ROWS),
    "unbind": (lambda x: sum(part.relu() for part in x.unbind(1)), [(2, 5, 3), (4, 5, 6), (6, 5, 9)]),
    "complex": (lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * 2).flatten(2), ROWS),
    "normalize": (lambda x: F.normalize(x, dim=1) + x.norm(p=1, dim=(1, 2), keepdim=True), ROWS),
    "einsum": (lambda x: torch.einsum("bid,bjd,de->bije", x, x * 2, torch.ones(8, 4)), ROWS),
    "einsum, implicit": (lambda x: torch.einsum("...id, ...jd", x, x[:, 2:]), ROWS),
    "einsum of heads": (lambda x: torch.einsum("bnhd,bmhd->bhnm", x.view(x.shape[0], -1, 2, 4), x.view(x.shape[0], -1, 2, 4)), ROWS),
    "einsum, one operand": (lambda x: torch.einsum("bii->bi", x[:, :6, :6] + 0) * x[:, 0, :6], ROWS),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2) * 2, [(2, 8, 5, 7), (3, 8, 4, 9), (2, 4, 6, 6)]),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), [(2, 3, 12, 18), (2, 3, 8, 14), (3, 3, 22, 6)]),
    "unfold": (lambda x: x.unfold(1, 4, 2).mean(-1), ROWS),
    "unfold of what is made": (lambda x: (x * 2).unfold(-2, 3, 1).transpose(-1, 2), ROWS),
    "im2col": (lambda x: F.unfold(x, (3, 2), padding=1, stride=2), IMAGES),
    "col2im": (lambda x: F.fold(F.unfold(x, 2, stride=2), (x.shape[2] // 2 * 2, x.shape[3] // 2 * 2), 2, stride=2), IMAGES),
    "linspace": (lambda x: x + torch.linspace(0, 1, x.shape[1])[None, :, None], ROWS),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (1, 4), return_indices=True), IMAGES),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x.transpose(1, 2), 4), ROWS),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x[:, :, None], (1, 4, None)), IMAGES),
    "avg_pool2d, ceil": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), IMAGES),
    "max_pool2d, ceil": (lambda x: F.max_pool2d(x, (3, 2), 2, (1, 0), ceil_mode=True, return_indices=True), IMAGES),
    "avg_pool1d of all": (lambda x: F.avg_pool1d(x.transpose(1, 2), x.shape[1]), ROWS),
    "max_pool1d": (lambda x: F.max_pool1d(x.transpose(1, 2), 3, 2, dilation=2), ROWS),
    "max_pool3d": (lambda x: F.max_pool3d(x[:, :, None], (1, 2, 3)), IMAGES),
    "argsort": (lambda x: x.gather(1, x.argsort(1)), ROWS),
    "scatter a value": (lambda x: torch.zeros(x.shape[0], x.shape[1]).scatter_(1, x.argmax(1).clamp(max=5), 1.0), ROWS),
    "scatter": (lambda x: torch.zeros_like(x).scatter_add_(1, x.argsort(1), x) + torch.zeros_like(x).scatter(1, x.argsort(1), x), ROWS),
    "one_hot": (lambda x: F.one_hot(x.argmax(2), 8).float() @ torch.ones(8), ROWS),
    "affine_grid": (lambda x: F.affine_grid(torch.ones(x.shape[0], 2, 3), x.shape, align_corners=False), IMAGES),
    "grid_sample": (lambda x: F.grid_sample(x, x.transpose(1, 3)[..., :2], align_corners=True), IMAGES),
    "diff": (lambda x: x.diff(n=2, dim=1) * 2, ROWS),
    "stft": (lambda x: torch.stft(x, 64, 16, window=WINDOW, return_complex=True).abs(), WAVES),
    "istft": (lambda x: torch.istft(torch.stft(x, 64, 16, window=WINDOW, return_complex=True), 64, 16, window=WINDOW, length=x.shape[-1]), WAVES),
    "istft of what there is": (lambda x: torch.istft(torch.stft(x, 64, 16, window=WINDOW, return_complex=True), 64, 16, window=WINDOW), WAVES),
    "rfft": (lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=x.shape[-1]), WAVES),
    "fft": (lambda x: torch.fft.ifft2(torch.fft.fft2(x)).real + torch.fft.fftshift(x), WAVES),
    "fft of the double": (lambda x: torch.fft.rfft(x, n=2 * x.shape[-1]).angle(), WAVES),
    "polar": (lambda x: torch.view_as_real(torch.polar(torch.ones_like(x), x)).flatten(2), ROWS),
    "instance_norm": (lambda x: F.instance_norm(x, weight=torch.ones(3), bias=torch.zeros(3)), IMAGES),
    "attention over one key": (lambda x: F.scaled_dot_product_attention(x.view(*x.shape[:2], 2, 4).transpose(1, 2), x[:, None, :, :4], x[:, None, :, 4:]), ROWS),
    "attention, masked": (lambda x: ATTENTION(x, x, x, attn_mask=MASK(x.shape[1]), is_causal=True, need_weights=False)[0], ROWS),
    "glu": (lambda x: F.glu(x, 2) + F.glu(torch.cat([x, x], 1), 1)[..., :4], ROWS),
    "cosine_similarity": (lambda x: F.cosine_similarity(x, x[:, :1] + 1, 2), ROWS),
    "var_mean": (lambda x: torch.var_mean(x, 1, correction=0) + torch.std_mean(x, (1, 2)), ROWS),
    "order": (lambda x: (*x.kthvalue(2, 1), *x.median(1, True), *x.cummax(1), x.logcumsumexp(1), x.msort()), ROWS),
    "tile": (lambda x: (x.tile(2), x.tile(2, 1, 1, 3)), ROWS),
    "pad_sequence": (lambda x: torch.nn.utils.rnn.pad_sequence([x[0], x[1, 1:], x[0, :2]], batch_first=True, padding_value=7.0), ROWS),
    "boundaries": (lambda x: (torch.bucketize(x, torch.arange(3.0)), torch.searchsorted(torch.arange(2.0), x[:, 0], out_int32=True)), ROWS),
    "scatter_reduce": (lambda x: (x * 0).scatter_reduce(1, torch.zeros_like(x[:, 2:], dtype=torch.int64), x[:, 2:], "amax"), ROWS),
    "other names": (lambda x: torch.subtract(torch.divide(x, x.shape[1]), torch.multiply(x, 2.0)).greater(x.shape[1] - 8), ROWS),
    "floats in pairs": (lambda x: (torch.fmax(x, x[:, :1]), torch.hypot(x, x), torch.copysign(x, x[:1]), torch.xlogy(x[:, 1:], x[:, :-1]),
                                   torch.logaddexp(x, x.new_zeros(x.shape[1], 1)), torch.isclose(x, x[0])), ROWS),
    "activations": (lambda x: F.selu(F.celu(x)) + F.threshold(x, 0.5, -1.0) + torch.sgn(x).clip(-1, x.shape[1]).negative().absolute(), ROWS),
    "shifts": (lambda x: (x.int() >> 1 << 2, x.int().bitwise_left_shift(x.shape[1] % 3)), ROWS),
    "counts": (lambda x: (x.nansum(1), x.nanmean(), x.count_nonzero(1), torch.count_nonzero(x), *x.aminmax(dim=1), torch.linalg.norm(x, dim=1)), ROWS),
    "distances": (lambda x: (torch.cdist(x, x[:, 1:]), F.pairwise_distance(x, x[:, :1]), F.mse_loss(x, x + 1), F.l1_loss(x, x * 2, reduction="none")), ROWS),
    "products": (lambda x: (torch.inner(x, x[0]), torch.kron(x, x[:1]), torch.addmv(x[0, :, 0], x[0], x[0, 0])), ROWS),
    "stacks": (lambda x: (torch.hstack([x, x[:, 1:]]), torch.vstack([x, x]), torch.column_stack([x[0], x[1]]), x.fliplr()), ROWS),
    "taken": (lambda x: (torch.take_along_dim(x, x.argsort(1)[:, :2], 1), x.moveaxis(0, 1) + 1, torch.isin(x, x[0, 0]),
                         x.index_fill(1, torch.tensor([0]), 1.0)), ROWS),
    "attention with weights": (lambda x: ATTENTION(x, x, x), ROWS),
    "attention, weights of heads": (lambda x: ATTENTION(x, x, x, average_attn_weights=False)[1], ROWS),
    "modules that transpose convolutions": (torch.nn.Sequential(torch.nn.Conv1d(8, 4, 1), torch.nn.ConvTranspose1d(4, 8, 4, 2, 1)), [(2, 8, 6), (3, 8, 9), (2, 8, 31)]),
    "attention": (lambda x: ATTENTION(x, x, x, need_weights=False)[0], ROWS),
    "encoder": (torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False).eval(), ROWS),
}


def same(found, wanted):
    if isinstance(wanted, torch.Tensor):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
        strides = [[stride for size, stride in zip(x.shape, x.stride()) if size != 1] for x in (found, wanted)]
        assert strides[0] == strides[1]
        return
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        same(one, other)


@pytest.mark.parametrize("name", CASES)
def test_one_recording_serves_every_size(ingot, name):
    function, shapes = CASES[name]
    torch.manual_seed(0)
    step = ingot.compile(function, wait=True)
    with torch.no_grad(), counted(ingot) as seen:
        for shape in shapes:
            x = torch.randn(*shape)
            wanted = function(x)
            same(step(x.clone()), wanted)
    assert (seen["captures"], seen["native_calls"]) == (1, len(shapes) - 1), step.report() + step.soundness()


def test_an_input_is_a_quotient_of_another(ingot):
    """A mask of half the length: its size is no symbol of its own, and another one is refused as eager refuses it."""
    def function(x, mask):
        return F.avg_pool1d(x.transpose(1, 2), 2, 2, ceil_mode=True) * mask[:, None]

    torch.manual_seed(0)
    step = ingot.compile(function, wait=True)
    with torch.no_grad(), counted(ingot) as seen:
        for length in (13, 8, 9, 30, 21, 4):
            x, mask = torch.randn(2, length, 8), torch.rand(2, (length + 1) // 2)
            same(step(x, mask), function(x, mask))
        with pytest.raises(RuntimeError, match="size of tensor"):
            step(torch.randn(2, 13, 8), torch.rand(2, 6))
    assert (seen["captures"], seen["native_calls"]) == (1, 5), step.report() + step.soundness()


def test_an_input_that_is_a_quotient_may_be_empty_or_one(ingot):
    """A template of longer ones takes neither: eager refuses the maximum of nothing."""
    def function(x, y):
        assert y.shape[0] == x.shape[0] // 4
        return x + y.max()

    torch.manual_seed(0)
    step = ingot.compile(function, wait=True)
    with torch.no_grad(), counted(ingot) as seen:
        for length in (32, 9, 41):
            x, y = torch.randn(length), torch.randn(length // 4)
            same(step(x, y), function(x, y))
    assert (seen["captures"], seen["native_calls"]) == (1, 2), step.report() + step.soundness()
    with torch.no_grad():
        x, y = torch.randn(7), torch.randn(1)
        same(step(x, y), function(x, y))
        with pytest.raises(RuntimeError, match="max"):
            step(torch.randn(3), torch.randn(0))


def test_gears_of_sizes_that_are_halved(ingot):
    """What two recordings have in common has quotients as what one says does."""
    torch.manual_seed(0)
    weight = torch.ones(4, 3, 3, 3) / 27

    def function(x):
        y = F.conv2d(x, weight, stride=2, padding=1).relu()
        return F.max_pool2d(y, 3, 2, 1) * 2 + y.mean((2, 3), keepdim=True)

    step = ingot.compile(function, wait=True)
    example = torch.randn(2, 3, 8, 16)
    ingot.set_dim_gears(example, {2: [8, 9, 15, 32]})
    with torch.no_grad():
        step.prepare(example)
        with counted(ingot) as seen:
            for height in (8, 9, 15, 32):
                x = torch.randn(2, 3, height, 16)
                ingot.set_dim_gears(x, {2: [8, 9, 15, 32]})
                same(step(x), function(x))
    assert (seen["captures"], seen["native_calls"]) == (0, 4), step.report() + step.soundness()
    assert len(step.variants) == 1, step.variants


def test_a_cache_is_written_where_it_ends(ingot):
    torch.manual_seed(0)
    plain = Cache()
    step = ingot.compile(Cache(), wait=True)
    with torch.no_grad(), counted(ingot) as seen:
        for count in (5, 3, 4, 6, 2, 7, 5, 9):
            x = torch.randn(2, count, 4)
            same(step(x), plain(x))
    # That the position moves takes a recording of its own.
    assert seen["captures"] <= 3 and seen["native_calls"] >= 5, step.report()


@pytest.mark.parametrize("function", [lambda x: torch.randn(x.shape) + x, lambda x: torch.rand_like(x),
                                      lambda x: torch.randint(3, 9, (x.shape[1],)), lambda x: torch.randperm(x.shape[0]),
                                      lambda x: torch.bernoulli(x.sigmoid()), lambda x: torch.multinomial(x.softmax(-1), 2), lambda x: F.gumbel_softmax(x, hard=True),
                                      lambda x: F.dropout(x, 0.5) + torch.randn_like(x[:, 1:]).sum()])
def test_random_numbers_of_every_size_are_eagers(ingot, function):
    step = ingot.compile(function, wait=True)
    with torch.no_grad(), counted(ingot) as seen:
        for shape in ((4, 5), (7, 9), (3, 4), (8, 2), (30, 40)):
            x = torch.randn(*shape)
            answers = []
            for call in (step, function):
                torch.manual_seed(shape[0])
                answers.append((call(x), torch.rand(3)))
            same(*answers)
    assert (seen["captures"], seen["native_calls"]) == (1, 4), step.report() + step.soundness()


@pytest.mark.parametrize("function", [lambda x: x.roll(2, 2), lambda x: x.roll(-4, 2), lambda x: x.roll(x.shape[0], 2), lambda x: x.roll((x.shape[0] - 2, 1), (1, 3))])
def test_turned_images_lie_as_eager_leaves_them(ingot, function):
    """Eager joins two parts, and forgets that channels are last where one of them is empty."""
    shapes = [(2, 4, 5, 7), (2, 4, 2, 5), (4, 4, 4, 4), (1, 1, 4, 5), (3, 2, 6, 7), (6, 4, 9, 3)]
    for order in (shapes, shapes[::-1]):
        step = ingot.compile(function, wait=True)
        with torch.no_grad(), counted(ingot) as seen:
            for shape in order * 2:
                x = torch.randn(*shape).contiguous(memory_format=torch.channels_last)
                result, wanted = step(x), function(x)
                same(result, wanted)
                assert result.stride() == wanted.stride(), step.report()
        assert seen["native_calls"] >= len(shapes)


ROW = torch.ones(6, 4)
# What is called, the shapes of its arguments: the first are recorded. Operators that find nothing to do at these, or only check.
ASKED = {
    "broadcast to a weight": (lambda x: torch.broadcast_tensors(x, ROW)[0] + 1, [[(6, 4)], [(8, 4)], [(2, 4)], [(1, 4)], [(6, 1)], [(6, 4)]]),
    "broadcast to a sum": (lambda x: [part.sum(0) for part in torch.broadcast_tensors(x, ROW)], [[(6, 4)], [(1, 4)], [(8, 4)], [(2, 6, 4)]]),
    "broadcast to each other": (lambda x, y: torch.broadcast_tensors(x, y)[0] + 1, [[(6, 4), (6, 4)], [(8, 4), (8, 4)], [(8, 4), (6, 4)], [(6, 4), (1, 4)], [(3, 7), (3, 7)]]),
    "sum_to_size": (lambda x: x.sum_to_size(6, 4) * 2, [[(6, 4)], [(8, 4)], [(3, 4)], [(2, 6, 4)], [(6, 5)]]),
    "sum_to_size of numbers": (lambda x: torch.ops.aten.sum_to_size(x, [6, 4]) * 2, [[(6, 4)], [(8, 4)], [(3, 4)]]),
    "sum_to_size of another": (lambda x, y: x.sum_to_size(y.shape) * 2, [[(6, 4), (6, 4)], [(6, 4), (1, 4)], [(6, 4), (3, 4)], [(3, 4), (3, 4)], [(7, 5), (7, 5)]]),
    "sum_to_size of its own": (lambda x: x.sum_to_size(x.shape[0], x.shape[1]) * 2, [[(6, 4)], [(8, 4)], [(3, 5)]]),
    "sum_to_size that is itself": (lambda x: x * 2 if x.sum_to_size(2, 3) is x else x * 3, [[(2, 3)], [(4, 3)], [(2, 4)]]),
    "repeats as many": (lambda x: x.repeat_interleave(2, 0, output_size=12) + 1, [[(6, 4)], [(8, 4)], [(3, 4)], [(6, 9)]]),
    "repeats all as many": (lambda x: x.repeat_interleave(2, output_size=48) + 1, [[(6, 4)], [(8, 4)], [(8, 3)], [(4, 6)]]),
    "a product of one": (lambda x: torch.cartesian_prod(x) + 1, [[(6,)], [(8,)], [(3,)]]),
}
# Nothing to do, whatever the sizes: one recording serves all.
NEVER_ASKED = {
    "atleast_2d": lambda x: torch.atleast_2d(x) + 1,
    "atleast_1d of two": lambda x: sum(torch.atleast_1d(x, x * 2)),
    "positive": lambda x: +x * 2,
    "real": lambda x: torch.real(x) + 1,
    "conj": lambda x: x.conj().resolve_conj().resolve_neg() + 1,
    "flatten": lambda x: x.flatten(1, 1) + 1,
    "alpha_dropout": lambda x: F.alpha_dropout(F.feature_alpha_dropout(x, 0.5, False), 0.5, False) + 1,
    "dropout": lambda x: F.dropout(x, 0.5, False).contiguous().to(torch.float32).type_as(x) + 1,
}


@pytest.mark.parametrize("function, shapes", ASKED.values(), ids=ASKED)
def test_what_an_operator_asks_of_sizes_holds_where_it_does_nothing(ingot, function, shapes):
    for order in (shapes, shapes[:1] + shapes[:0:-1]):
        step = ingot.compile(function, wait=True)
        with torch.no_grad():
            for sizes in order * 2:
                given, seen = [torch.randn(*size) for size in sizes], []
                for call in (step, function):
                    try:
                        seen.append(call(*given))
                    except RuntimeError as error:
                        seen.append(error)
                assert isinstance(seen[0], RuntimeError) == isinstance(seen[1], RuntimeError), (sizes, seen, step.report())
                if not isinstance(seen[1], RuntimeError):
                    same(*seen)


@pytest.mark.parametrize("function", NEVER_ASKED.values(), ids=NEVER_ASKED)
def test_operators_that_never_ask_leave_sizes_open(ingot, function):
    step = ingot.compile(function, wait=True)
    with torch.no_grad(), counted(ingot) as seen:
        for shape in PAIRS:
            x = torch.randn(*shape)
            same(step(x), function(x))
    assert (seen["captures"], seen["native_calls"]) == (1, len(PAIRS) - 1), step.report() + step.soundness()


GIVE_BACK = {
    "aten.contiguous": lambda x: x.contiguous(), "aten.dropout": lambda x: F.dropout(x, 0.5, False), "aten.feature_dropout": lambda x: F.dropout2d(x[None], 0.5, False),
    "aten.to.dtype": lambda x: x.to(torch.complex64), "aten.to.device": lambda x: x.to("cpu", torch.complex64), "aten.to.dtype_layout": lambda x: x.to(dtype=torch.complex64),
    "aten.to.other": lambda x: x.to(torch.ones(1)), "aten.type_as": lambda x: x.type_as(torch.ones(1)), "aten.real": lambda x: torch.real(x + 1),
    "aten.alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, False), "aten.feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.5, False),
    "aten.atleast_1d": torch.atleast_1d, "aten.atleast_2d": torch.atleast_2d, "aten.atleast_3d": torch.atleast_3d,
    "aten.atleast_1d.Sequence": lambda x: torch.atleast_1d(x, x[0]), "aten.atleast_2d.Sequence": lambda x: torch.atleast_2d(x, x[0]),
    "aten.atleast_3d.Sequence": lambda x: torch.atleast_3d(x, x[0]), "aten.cartesian_prod": lambda x: torch.cartesian_prod(x[0, 0]),
    "aten.conj": torch.conj, "aten.conj_physical": torch.conj_physical, "aten.resolve_conj": torch.resolve_conj, "aten.resolve_neg": torch.resolve_neg,
}


def _rows_that_give_back():
    text = (pathlib.Path(__file__).parents[3] / "compiler" / "ops" / "ops.def").read_text()
    return re.findall(r'^(?:OP|OTHER)\("([\w.]+)".*\bGIVES_BACK\b', text, re.M)


@pytest.mark.parametrize("row", _rows_that_give_back())
def test_what_gives_its_operand_back_does_so_where_eager_does(ingot, row):
    """Of some element types, layouts and modes alone."""
    function = GIVE_BACK[row]
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.complex128):
        x = torch.tensor([[[1, 2, 3], [4, 0, -5]]]).to(dtype)
        for x in (x * (2 - 1j) if dtype.is_complex else x, x.transpose(1, 2)):
            step = ingot.compile(lambda x: function(x), wait=True, config=ingot.Config(agree="off"))
            with torch.no_grad():
                for _ in range(3):
                    for found, wanted in zip(as_list(step(x)), as_list(function(x)), strict=True):
                        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
                        assert (found.data_ptr() == x.data_ptr()) == (wanted.data_ptr() == x.data_ptr())


def as_list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]
