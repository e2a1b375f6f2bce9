# SPDX-License-Identifier: Apache-2.0
"""gears: raised GearError: The index 3 of the current tensor shape is not within the range [5, 9, 5, 2, 2, 1]"""

import torch
from values import Values, inside, spread, transposed

MODES = ['gears']
SIZES = [(2, 16), (1, 1)]


def inputs(n, m, seed):
    make = Values(seed)
    return [make.place(m, m), make.order(n)]


def program(a0, a2):
    torch.add(a0, a0, out=a2)
    return a0
