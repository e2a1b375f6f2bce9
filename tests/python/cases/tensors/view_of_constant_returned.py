# SPDX-License-Identifier: Apache-2.0
"""traced: native call: result 1 and result 0: share memory in only one of native and eager"""

import torch
from values import Values, inside, spread, transposed

MODES = ['traced']
SIZES = [(1, 1), (8, 7), (8, 9), (2, 5), (4, 1), (3, 8)]


def inputs(n, m, seed):
    make = Values(seed)
    return [make.index(n, n * 2, m), make.int(m, dtype=torch.int16), make.bool(n, 2, m), make.float(n, 6, dtype=torch.float32)]


def program(a0, a1, a2, a3):
    v0 = a3.sum((0, 1))
    v1 = torch.tensor(2)
    v2 = v1.squeeze(-1)
    v3 = v2 & v2
    v4 = v3.to(torch.float16)
    v5 = v1 <= a3
    v6 = v3.mT
    v7 = torch.where(v5, v4, v4)
    v8 = torch.add(v4, v1, alpha=0.1)
    v9 = a3.to(torch.int32)
    v10 = a2.to(torch.bfloat16)
    v11 = v5.squeeze((0, -1))
    v8.relu_()
    v12 = torch.eye(v5.shape[0])
    return (v1, v2, v3, v6, v11, v12,)
