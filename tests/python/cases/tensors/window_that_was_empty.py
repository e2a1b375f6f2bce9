# SPDX-License-Identifier: Apache-2.0
"""one: native call: result 2: strides [1, 1], eager has [3, 1]"""

import torch
from values import Values, inside, spread, transposed

MODES = ['exact', 'one', 'template', 'gears', 'export']
SIZES = [(8, 6), (9, 6), (7, 9), (4, 16), (9, 0), (2, 1)]


def inputs(n, m, seed):
    make = Values(seed)
    return [make.float(n, m, dtype=torch.float32), transposed(make.float(n, m + 1, dtype=torch.float32))]


def program(a0, a1):
    v0 = a0[:a1.shape[0]:2, 3:]
    v1 = torch.round(a0)
    v2 = v0.roll(v1.shape[1])
    v3, v4 = v0, v2[:]
    return [v0, v3, v4]
