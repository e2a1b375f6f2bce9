# SPDX-License-Identifier: Apache-2.0
"""Real processes at the price of a fork: a parent that has imported torch and ingot and nothing else runs each
request in a child of its own. Every parent has another hash seed, as separate starts would."""

import importlib
import json
import os
import subprocess
import sys
import traceback

import pytest


class Zygote:
    """A parent process; ``run`` gives one child a folder, a module to import and what to do before it."""

    def __init__(self, env, seed: int) -> None:
        self._process = subprocess.Popen([sys.executable, __file__], env={**env, "PYTHONHASHSEED": str(seed)}, text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, folder, module: str, before: str = "", environ=None):
        """What the child found, as a dict; fails the test with its traceback when it raised."""
        request = {"folder": str(folder), "module": module, "before": before, "environ": environ or {}}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        reply = json.loads(self._process.stdout.readline())
        if "error" in reply:
            pytest.fail(reply["error"])
        return reply

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(30)


def _flat(value):
    import torch

    if isinstance(value, torch.Tensor):
        return [torch.view_as_real(value) if value.is_complex() else value]
    if isinstance(value, (bool, int, float)):
        return [torch.tensor(float(value))]
    if isinstance(value, dict):
        value = list(value.values())
    elif hasattr(value, "__dataclass_fields__"):
        value = [getattr(value, name) for name in value.__dataclass_fields__]
    return [leaf for item in value for leaf in _flat(item)] if isinstance(value, (list, tuple)) else []


def _same(a, b) -> bool:
    import torch

    a, b = _flat(a), _flat(b)
    return len(a) == len(b) and all(torch.allclose(x, y, rtol=1e-5, atol=1e-6, equal_nan=True) for x, y in zip(a, b))


def _child(request):
    sys.path.insert(0, request["folder"])
    os.chdir(request["folder"])
    for name, value in request["environ"].items():
        os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
    import torch

    import ingot

    exec(request["before"], {"torch": torch})
    module = importlib.import_module(request["module"])
    made, args = module.make()
    step = module.wrap(ingot, made) if hasattr(module, "wrap") else ingot.compile(made, wait=True)
    with getattr(module, "mode", torch.no_grad)():
        kwargs = getattr(module, "keywords", {})
        first, second, expected = step(*args, **kwargs), step(*args, **kwargs), made(*args, **kwargs)
    stats = ingot.stats()
    return {"right": _same(first, expected) and _same(second, expected), "answer": [leaf.double().sum().item() for leaf in _flat(expected)],
            "captures": stats["captures"], "hits": stats["entry_hits"], "native": stats["native_calls"], "why": step.why_miss(),
            "report": step.report(), "soundness": step.soundness()}


def _serve() -> None:
    import torch  # noqa: F401

    import ingot  # noqa: F401

    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What programs print is not an answer.
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                reply = _child(json.loads(line))
            except BaseException:
                reply = {"error": traceback.format_exc()}
            out.write(json.dumps(reply) + "\n")
            out.flush()
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    _serve()
