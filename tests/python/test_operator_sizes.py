# SPDX-License-Identifier: Apache-2.0
"""Operators with a rule for sizes: one recording, and every other size is native and eager's, layout included."""

import pytest
import torch
from torch.nn import functional as F

from test_one_recording import counted

IMAGES = [(2, 3, 12, 17), (2, 3, 9, 14), (2, 3, 30, 8), (2, 3, 21, 21), (2, 3, 10, 33)]
ROWS = [(2, 13, 8), (2, 9, 8), (2, 21, 8), (2, 6, 8), (2, 30, 8)]
PAIRS = [(5, 7), (9, 4), (6, 6), (3, 20)]

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
            same(step(x.clone()), function(x))
    assert (seen["captures"], seen["native_calls"]) == (1, len(shapes) - 1), step.report() + step.soundness()
