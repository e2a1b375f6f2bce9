# SPDX-License-Identifier: Apache-2.0
"""Random ONNX models and random archives (tests/fuzz/onnx, tests/fuzz/archives): a fixed list of seeds of each."""

import collections
import importlib.util
import pathlib
import sys

import pytest
from conftest import BUILD

FUZZ = pathlib.Path(__file__).parent.parent / "fuzz"


def module(folder, name):
    """A fuzzer's file with its own neighbours: those of other fuzzers have the same names."""
    before = dict(sys.modules)
    spec = importlib.util.spec_from_file_location(f"{folder}_{name.strip('_')}", FUZZ / folder / f"{name}.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    for fresh in set(sys.modules) - set(before):
        if pathlib.Path(getattr(sys.modules[fresh], "__file__", None) or "/").is_relative_to(FUZZ.parent):
            del sys.modules[fresh]
    return made


@pytest.fixture(scope="module")
def models():
    path = list(sys.path)
    yield module("onnx", "child")
    sys.path[:] = path


@pytest.mark.parametrize("kinds, count, right", ((set(), 120, 85), ({"sizes", "layers", "branches", "loops", "scans", "old"}, 60, 35)), ids=("nodes", "chains"))
def test_models_are_as_the_reference_says(models, kinds, count, right):
    checker, outcomes = models.Child(str(BUILD), ""), collections.Counter()
    for seed in range(70_000_000, 70_000_000 + count):
        case = models.drawn(seed, kinds)
        outcome, why = checker.model(case, seed)
        assert outcome not in ("wrong", "crashed", "internal"), f"--seed {seed}: {outcome}: {why}\n{case.text()}"
        outcomes[outcome] += 1
    checker.batch.close()
    assert outcomes["right"] >= right, outcomes


def test_a_wrong_answer_is_found(models):
    """Each of a few models, with one element of one result changed."""
    checker, found = models.Child(str(BUILD), ""), 0
    for seed in range(40):
        case = models.drawn(seed, {"Add", "Concat", "MatMul", "Softmax", "Transpose"})
        if case.changed:
            continue
        feeds = case.call(seed, {})
        answers = models.judges.reference(case.model(), feeds)
        if answers[0].size == 0:
            continue
        assert checker.judged(case, answers, feeds)[0] == "right"
        changed = answers[0].copy()
        changed.flat[-1] = 99 if changed.dtype.kind != "b" else not changed.flat[-1]
        found += checker.judged(case, [changed, *answers[1:]], feeds)[0] == "wrong"
    assert found >= 25


def test_archives_are_as_eager():
    path = list(sys.path)
    counts = module("archives", "__main__").run(500, float("inf"), 30, str(BUILD))
    sys.path[:] = path
    assert not counts["failed"] and counts["served"] >= 10, counts
