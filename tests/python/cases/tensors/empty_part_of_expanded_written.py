# SPDX-License-Identifier: Apache-2.0
"""export [5, 8]: native call: raised Internal: more than one element of the written-to tensor refers to a single memory location, eager nothing"""

import torch
from values import Values, inside, spread, transposed

MODES = ['export']
SIZES = [(6, 8)]


def inputs(n, m, seed):
    make = Values(seed)
    return [make.place(n, n), make.float(n)]


def program(a0, a1):
    v0 = a1[:1].expand((a0.shape[0] + 1), -1)
    v0[:-(2 * a0.shape[0]), (a1.shape[0] + 1):] += -2
    return a0
