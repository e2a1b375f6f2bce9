# SPDX-License-Identifier: Apache-2.0
"""Eager does not look at an index where the result has no elements; native code refused what lies outside."""

import torch
from values import Values

MODES = ["exact", "export", "template"]
SIZES = [(6, 2), (5, 4), (9, 3)]


def inputs(n, m, seed):
    make = Values(seed)
    return [make.float(n, m), make.index(m, n, m)]


def program(a0, a1):
    nothing = a0[:, :0]
    far = a1 + 100
    return nothing[far], nothing[far].clone().transpose(0, 1), torch.zeros(0, 3)[:, far[:, :1]]
