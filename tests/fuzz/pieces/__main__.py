# SPDX-License-Identifier: Apache-2.0
"""Programs in which values leave the graph, beside their plain selves: in parts and in pieces, call by call.

usage: tests/fuzz/pieces [SECONDS] [--seed N]
"""

import pathlib
import sys
import types

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import generate
import seeds

CALLS, ROUNDS = 12, 4


def check(seed: int) -> "tuple[str, int, int]":
    """(what is wrong, or nothing; calls of one round; those of pieces and parts that native code served in the last)."""
    import ingot

    text = generate.Writer(seed).text
    name = f"pieces_{seed}"
    plain_scope, scope = generate.load(text, name), generate.load(text, name)
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(scope)
    plain, step = plain_scope["make"](), ingot.compile(scope["make"]())
    torch.manual_seed(seed)
    native = 0
    with torch.no_grad():
        for turn in range(ROUNDS):
            before = ingot.stats()["native_calls"]
            for call in range(CALLS):
                x = torch.randint(-4, 5, (3 + call % 3, generate.WIDTH)).float()
                number = turn * CALLS + call
                wanted, found = generate.outcome(plain_scope, plain, x.clone(), number), generate.outcome(scope, step, x.clone(), number)
                if wanted[1:] != found[1:] or seeds.differs(wanted[0], found[0]):
                    return f"call {number}: {wanted} where {found} was given\n{text}\n{step.report()}", CALLS, native
            step.wait(60)
            native = ingot.stats()["native_calls"] - before
    if getattr(plain, "seen", 0) != getattr(step, "seen", 0):
        return f"the state is {step.seen}, not {plain.seen}\n{text}", CALLS, native
    return "", CALLS, native


if __name__ == "__main__":
    seeds.run(check, __doc__)
