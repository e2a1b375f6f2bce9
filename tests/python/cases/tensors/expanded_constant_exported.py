# SPDX-License-Identifier: Apache-2.0
"""export [2, 7]: native call: raised Internal: more than one element of the written-to tensor refers to a single memory location, eager nothing"""

import torch
from values import Values, inside, spread, transposed

MODES = ['export']
SIZES = [(1, 7)]


def inputs(n, m, seed):
    make = Values(seed)
    return [make.float(n, m, 2)]


def program(a0):
    v2 = torch.tensor(0.1)
    v3 = v2.expand(a0.shape)
    return v3
