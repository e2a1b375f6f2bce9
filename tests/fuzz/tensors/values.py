# SPDX-License-Identifier: Apache-2.0
"""Values for the inputs of a program: the same ones for the same seed."""

import typing

import torch

import writers  # noqa: F401 - programs name them

SPECIAL = 1 << 20   # seeds from here on make special numbers as well
WRONG = 1 << 21     # seeds from here on make positions that are none, and the integers at the ends, as well
NUMBERS = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-310, 3e38, -3e38)


class Values:
    """Makes tensors one after the other; floats are tame (between -2 and 2), so that sums and quotients keep a meaning."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._special = SPECIAL <= seed < WRONG
        self._wrong = seed >= WRONG

    def float(self, *sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        x = torch.rand(sizes, generator=self._generator, dtype=torch.float64) * 4 - 2
        if self._special:
            numbers = torch.tensor((*NUMBERS, torch.finfo(dtype).tiny / (1 if dtype.itemsize == 2 else 2)), dtype=torch.float64)
            chosen = numbers[torch.randint(len(numbers), sizes, generator=self._generator)]
            x = torch.where(torch.rand(sizes, generator=self._generator) < 0.25, chosen, x)
        return x.to(dtype)

    def complex(self, *sizes: int) -> torch.Tensor:
        return torch.complex(self.float(*sizes), self.float(*sizes))

    def int(self, *sizes: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        low = 0 if dtype == torch.uint8 else -9
        x = torch.randint(low, 10, sizes, generator=self._generator)
        return self._with(x, (0, torch.iinfo(dtype).min + 1, torch.iinfo(dtype).max)).to(dtype)

    def bool(self, *sizes: int) -> torch.Tensor:
        return torch.rand(sizes, generator=self._generator) < 0.5

    def index(self, below: int, *sizes: int) -> torch.Tensor:
        """Positions of a dim of that size, counted from either end."""
        return self._with(torch.randint(-below, max(below, 1), sizes, generator=self._generator), (below, -below - 1, 1 << 40))

    def place(self, below: int, *sizes: int) -> torch.Tensor:
        """Positions counted from the front."""
        return self._with(torch.randint(0, max(below, 1), sizes, generator=self._generator), (below, -1, -below - 1))

    def order(self, count: int) -> torch.Tensor:
        """Each position once."""
        return self._with(torch.randperm(count, generator=self._generator), (count, -1))

    def _with(self, x: torch.Tensor, wrong: "tuple[int, ...]") -> torch.Tensor:
        """Of a few elements, one of those in place of them."""
        if not self._wrong:
            return x
        chosen = torch.tensor(wrong)[torch.randint(len(wrong), x.shape, generator=self._generator)]
        return torch.where(torch.rand(x.shape, generator=self._generator) < 0.15, chosen, x)


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The same values with the first two dims the other way round in memory."""
    return tensor if tensor.dim() < 2 else tensor.transpose(0, 1).contiguous().transpose(0, 1)


def spread(tensor: torch.Tensor) -> torch.Tensor:
    """The same values with a gap after each."""
    return torch.stack([tensor, tensor + 1 if tensor.dtype != torch.bool else ~tensor], -1)[..., 0]


def inside(tensor: torch.Tensor) -> torch.Tensor:
    """The same values inside of a larger buffer, whose rest must stay as it is."""
    rest = torch.ones(9, dtype=tensor.dtype)
    return torch.cat([rest, tensor.reshape(-1), rest])[9:9 + tensor.numel()].view(tensor.shape)


def names() -> "dict[str, typing.Any]":
    """What a program's inputs() may use."""
    return {"Values": Values, "transposed": transposed, "spread": spread, "inside": inside}
