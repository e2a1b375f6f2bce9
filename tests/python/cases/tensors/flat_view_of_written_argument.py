# SPDX-License-Identifier: Apache-2.0
"""Results that share memory with what was written, or only look as if they did."""

import torch
from values import Values, inside, spread, transposed
MODES = ['exact','template']
SIZES = [(5, 9),(4,7)]
def inputs(n, m, seed):
    make = Values(seed)
    return [make.float(n, m), make.float(n,m)]
def program(a, b):
    v = a.reshape(-1)
    w = a.t().reshape(-1)
    v.add_(1)
    w.add_(1)
    return v, w
