# SPDX-License-Identifier: Apache-2.0
"""The recorder alone, as the tests of it use it: what decodes a recording, and one recorded call."""

import importlib.util
import os
import pathlib
import sys
import types

import pytest
import torch

from ingot import _native
from ingot.trace import recording

_OWN = recording.__file__.rsplit("/", 2)[0] + "/"
_ROOT = pathlib.Path(__file__).resolve().parents[2]


def load(name, path):
    """The module of a file, found by its name from then on, as the functions in it are."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def parts():
    """The recorder, and what its test module (tests/support/client/recorder_test_module.cpp) adds."""
    build = pathlib.Path(os.environ.get("INGOT_BUILD_DIR", _ROOT / "build")) / "client" / "native"
    found = sorted(build.glob("_native_recorder_test*.so"))
    if not found:
        pytest.skip(f"no _native_recorder_test in {build}; build it or set INGOT_BUILD_DIR")
    native = load("_native_recorder_test", found[0])
    return types.SimpleNamespace(Recorder=_native.Recorder, decode=native.decode, why_not_admitted=native.why_not_admitted)


class Run:
    """One recorded call: its result and, on demand, its recording."""

    def __init__(self, parts, fn, *inputs, weights=(), deferred_above=None):
        self._parts = parts
        self.recorder = parts.Recorder(deferred_above)
        for i, tensor in enumerate(inputs):
            self.recorder.declare_input(tensor, f"x{i}")
        observer, recorder = _native.Observer(_OWN), self.recorder
        observer.add_root(fn, "function")
        for tensor in inputs:
            observer.add_argument(tensor)
        # Only what leaves the graph is listened to: what these functions read outside is no matter of the recorder's.
        observer.set_hooks(lambda name, detail: None, recorder.refuse, lambda tensor: recording._read_list(recorder, tensor),
                           recorder.note_alias)
        recorder.start()
        observer.start(fn, 5_000_000)
        try:
            self.result = fn(*inputs)
        finally:
            observer.stop()
            recorder.stop()
        self.observed_refusal = observer.refused
        self.weights = {id(t): f"w{i}" for i, t in enumerate(weights)}

    @property
    def refusal(self):
        return self.recorder.refusal and self.recorder.refusal[0]

    def decode(self):
        outputs = [t for t in leaves(self.result) if isinstance(t, torch.Tensor)]
        for output in outputs:
            self.recorder.note_output(output)
        for value, tensor, _ in self.recorder.foreigns():
            if id(tensor) in self.weights:
                self.recorder.declare_weight(value, self.weights[id(tensor)])
            else:
                assert self.recorder.declare_constant(value, 1 << 16) is None
        return self._parts.decode(self.recorder.finish("test.fn", outputs))


def leaves(value):
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


@pytest.fixture
def record(parts):
    with torch.no_grad():
        yield lambda fn, *inputs, weights=(): Run(parts, fn, *inputs, weights=weights)
