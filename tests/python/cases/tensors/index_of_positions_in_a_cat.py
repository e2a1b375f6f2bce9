# SPDX-License-Identifier: Apache-2.0
"""export: native call: raised Internal: program1835.program: an index read from a tensor lies outside the indexed dimension, eager nothing"""

import torch
from values import Values, inside, spread, transposed

MODES = ['export']
SIZES = [(1, 6)]


def inputs(n, m, seed):
    make = Values(seed)
    return [make.float(2, n, m)]


def program(a2):
    v3 = a2.index_select(0, torch.arange(a2.shape[0]) // 2)
    v4 = torch.cat([v3, v3], 0)
    return v4
