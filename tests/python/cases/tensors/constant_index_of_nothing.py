# SPDX-License-Identifier: Apache-2.0
"""exact: eager call: raised HalfDone: an index read from a tensor lies outside the indexed dimension, eager nothing"""

import torch
from values import Values, inside, spread, transposed

MODES = ['exact']
SIZES = [(0, 9)]


def inputs(n, m, seed):
    make = Values(seed)
    return [make.place(n, n), make.float(1, m), make.place(n, n, m)]


def program(a0, a1, a3):
    a1[:-(2 * a3.shape[0])].add_(0.25)
    v1 = torch.cat([a0, a0], 0)
    v1.zero_()
    v6 = torch.arange((v1.shape[0] // 2))
    v7 = v6.index_select(0, v1)
    return v7
