# SPDX-License-Identifier: Apache-2.0
"""one: native call: result 0 and argument 2: share memory in only one of native and eager"""

import torch
from values import Values, inside, spread, transposed

MODES = ['one']
SIZES = [(2, 6)]


def inputs(n, m, seed):
    make = Values(seed)
    return [transposed(make.int(n, m, dtype=torch.int64))]


def program(a2):
    v0 = a2.reshape(-1, a2.shape[0])
    return v0
