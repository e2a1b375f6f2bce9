# SPDX-License-Identifier: Apache-2.0
"""A write through a view left results with the strides that undoing the view gave, not with those of the memory."""

import torch
from values import Values

MODES = ["exact", "template"]
SIZES = [(4, 33), (6, 2), (7, 6), (1, 5)]


def inputs(n, m, seed):
    make = Values(seed)
    return [make.float(n, m), make.float(n, m, 2)]


def program(a0, a1):
    gaps = torch.slice_scatter(a0[:, 1:], a0[:, :1], 1, -1)
    gaps.zero_()
    turned = a1.abs().transpose(0, -1)
    turned.squeeze()[5:, :] += 0.25
    return gaps, a1.sqrt().transpose(0, -1).unsqueeze(0).add_(1), turned
