# SPDX-License-Identifier: Apache-2.0
"""flatten() is a view where there is one row, and a copy otherwise."""

import torch
from values import Values, inside, spread, transposed

MODES = ['template']
SIZES = [(1, 9), (3, 6)]


def inputs(n, m, seed):
    make = Values(seed)
    return [make.float(n, 2, m)]


def program(a1):
    v2 = a1.unbind(-2)[0]
    v6 = v2.flatten()
    return v6
