# SPDX-License-Identifier: Apache-2.0
"""Random ONNX models and random archives (tests/fuzz/onnx, tests/fuzz/archives): a fixed list of seeds of each."""

import collections

import fuzzers
import pytest
from conftest import BUILD

@pytest.fixture(scope="module")
def models():
    with fuzzers.running("onnx", "child") as child:
        yield child


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
    with fuzzers.running("archives") as archives:
        counts = archives.run(500, float("inf"), 30, str(BUILD))
    assert not counts["failed"] and counts["served"] >= 10, counts
