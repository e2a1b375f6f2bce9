# SPDX-License-Identifier: Apache-2.0
"""exact: native call: result 3 and result 0: share memory in only one of native and eager"""

import torch
from values import Values, inside, spread, transposed

MODES = ['exact']
SIZES = [(5, 1), (6, 8), (5, 3), (3, 8), (4, 15), (1, 4)]


def inputs(n, m, seed):
    make = Values(seed)
    return [make.int(m, dtype=torch.uint8), make.int(n * 2, m, dtype=torch.int64), make.bool(3, 4), make.bool(1, m)]


def program(a0, a1, a2, a3):
    a2[3:, -a3.shape[0]::2] = 0
    v0 = a1.T
    v1 = torch.tensor(-1.5)
    v2 = torch.where(a3, v1, a3)
    v3 = a1.reshape(-1, a1.shape[0])
    v4 = torch.nn.functional.pad(v2, (1, 2))
    v5 = a1 > a1
    v6, v7 = torch.broadcast_tensors(a2, v1)
    v8 = v5.unbind(-2)[-1]
    v9 = torch.arange(v5.shape[1], -1, -1)
    v10 = v7[3:1]
    v11 = torch.arange(a0.shape[0])
    return {'r0': v1, 'r1': v4, 'r2': v5, 'r3': v7, 'r4': v8, 'r5': v9, 'r6': v11}
