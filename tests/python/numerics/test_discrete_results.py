# SPDX-License-Identifier: Apache-2.0
"""What is decided by a rounded value is decided as eager decides it: arithmetic before decisions, to the bit."""

import pytest
import torch

PRODUCERS = {
    "scaled": lambda x: x * 1.1,
    "shifted": lambda x: x * 3 + 0.3,
    "ratio": lambda x: x / 7 - 0.1,
    "product": lambda x: (x + 1) * (x - 0.7),
    "gated": lambda x: torch.relu(x) * x + x,
    "widened": lambda x: (x.float() * 0.37).to(x.dtype) + x,
    "largest": lambda x: x * 0.9 - x.amax(-1, keepdim=True),
}
EIGHTHS = (torch.arange(-256, 256) / 64).reshape(16, 32).to(torch.float8_e4m3fn).t()
ONE, HALF = torch.tensor(1.0), torch.tensor(0.5)
CONSUMERS = {
    "int8": lambda y: (y * 16).round().clamp(-128, 127).to(torch.int8),
    "int4 pairs": lambda y: ((y * 4).round().clamp(-8, 7) + 8).to(torch.uint8)[..., ::2] | ((y * 4).round().clamp(-8, 7) + 8).to(torch.uint8)[..., 1::2] << 4,
    "float8": lambda y: y.to(torch.float8_e4m3fn).float(),
    "float8 of a row": lambda y: (y / (y.abs().amax(-1, keepdim=True) / 448)).to(torch.float8_e4m3fn).float(),
    "integers": lambda y: (y * 100).long(),
    "floor": lambda y: (y * 8).floor(),
    "compared": lambda y: (y > 0.5) | (y == y.flip(-1)),
    "argmax": lambda y: (y.argmax(-1), y.argmin(0)),
    "topk": lambda y: y.topk(3, -1),
    "sort": lambda y: torch.sort(y, stable=True, dim=-1),
    "buckets": lambda y: torch.bucketize(y, torch.linspace(-2, 2, 9, dtype=y.dtype)),
    "remainder": lambda y: torch.remainder(y, 0.25),
    "scaled product": lambda y: torch._scaled_mm(y.to(torch.float8_e4m3fn), EIGHTHS, ONE, HALF, out_dtype=torch.bfloat16),
    "rounded twice": lambda y: y.to(torch.bfloat16).to(torch.float8_e5m2).float(),
}


def same(found, expected):
    if isinstance(expected, tuple):
        return all(same(one, other) for one, other in zip(found, expected, strict=True))
    return torch.equal(torch.nan_to_num(found.double()), torch.nan_to_num(expected.double())) and found.dtype == expected.dtype


@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16), ids=str)
@torch.no_grad()
def test_decisions_are_eagers(ingot, dtype, consumer):
    generator = torch.Generator().manual_seed(0)
    # Halves and quarters lie on the steps; many equal ones make ties.
    x = (torch.randint(-64, 64, (6, 32), generator=generator) / 16).to(dtype)
    wrong = []
    # Three of the arithmetics each, other ones in turn.
    first = list(CONSUMERS).index(consumer) + (torch.float32, torch.bfloat16, torch.float16).index(dtype)
    names = list(PRODUCERS)
    for name in (names[(first + by) % len(names)] for by in (0, 2, 3)):
        producer = PRODUCERS[name]

        def program(x, producer=producer):
            return CONSUMERS[consumer](producer(x))
        step = ingot.compile(program, config=ingot.Config(wait=True, agree="off"))
        found = [step(x.clone()) for _ in range(2)][-1]
        if not step.variants:
            wrong.append((name, step.report()))
        elif not same(found, program(x)):
            wrong.append((name, "differs"))
    assert not wrong, wrong
