# SPDX-License-Identifier: Apache-2.0
"""What the machines of tests call."""

# Each line is the number of a function, whose binary digits are its statements: it is called, served, and called again.
PROGRAM = """
import json, sys
import torch, ingot
def function(number):
    lines = [f"    x = torch.{'relu' if number >> bit & 1 else 'sigmoid'}(x @ w) + x" for bit in range(12)]
    scope = {"torch": torch}
    exec(compile("\\n".join([f"def f{number}(x, w):", *lines, "    return x"]), f"f{number}.py", "exec"), scope)
    return scope[f"f{number}"]
torch.manual_seed(0)
x, w = torch.randn(4, 16), torch.randn(16, 16) / 8
with torch.no_grad():
    for line in sys.stdin:
        f = function(int(line))
        right, before = f(x, w), ingot.stats()
        g = ingot.compile(f)
        first = g(x, w)
        g.wait(60)
        last = g(x, w)
        after = ingot.stats()
        print(json.dumps({"right": torch.allclose(right, first, atol=1e-5) and torch.allclose(right, last, atol=1e-5),
                          **{name: after[name] - before[name] for name in ("captures", "native_calls")}}), flush=True)
"""
