# SPDX-License-Identifier: Apache-2.0
"""ONNX branches and loops that data decides: a file has each way, and the first whose conditions hold serves a call."""

import pytest
import torch
from onnx_writer import Model
from test_onnx import assert_close, compiled, refusal


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def branches(x, yes, no):
    """Two graphs of one node each, for an If."""
    graphs = Model(), Model()
    for graph, op in zip(graphs, (yes, no)):
        graph.output(graph.node(op, x))
    return {"then_branch": graphs[0], "else_branch": graphs[1]}


def test_branches_that_data_decides(tmp_path):
    """Two conditions, of what is computed and within a branch: three ways, each for all sizes."""
    outer, other = Model(), Model()
    most = outer.node("ReduceMax", "x", keepdims=0)
    outer.output(outer.node("If", outer.node("Greater", most, outer.constant("one", torch.tensor(1.0))), **branches("x", "Exp", "Neg")))
    other.output(other.node("Relu", "x"))
    model = Model()
    model.input("x", "n", 3)
    above = model.node("Greater", model.node("ReduceSum", "x", keepdims=0), model.constant("zero", torch.tensor(0.0)))
    model.output(model.node("If", above, then_branch=outer, else_branch=other), model.node("Not", above))
    said, loaded = compiled(model, tmp_path)
    assert len(said["variants"]) == 6
    for rows in (1, 2, 5, 40):
        for x in (torch.rand(rows, 3), torch.rand(rows, 3) + 1, -torch.rand(rows, 3)):
            y, below = loaded(x).values()
            assert_close(y, x.exp() if x.max() > 1 else -x if x.sum() > 0 else x.relu())
            assert below.item() == bool(x.sum() <= 0)


def test_more_ways_than_a_file_has(tmp_path):
    model = Model()
    x = model.input("x", 3)
    for i in range(4):
        one = model.node("Gather", x, model.constant(f"at{i}", torch.tensor(i % 3)))
        x = model.node("If", model.node("Greater", one, model.constant(f"zero{i}", torch.tensor(0.0))), **branches(x, "Exp", "Neg"))
    model.output(x)
    assert "more than 8 ways" in refusal(model, tmp_path)


def loop(most):
    """Doubles x until its sum is above 10, ``most`` times (None: as often as it takes); the sums as well."""
    body = Model()
    for name, dtype in (("turn", torch.int64), ("on", torch.bool)):
        body.input(name, dtype=dtype)
    body.input("y", "n")
    y = body.node("Add", "y", "y")
    total = body.node("ReduceSum", y, keepdims=0)
    body.output(body.node("Less", total, body.constant("ten", torch.tensor(10.0))), y, total)
    model = Model()
    model.input("x", "n")
    begins = model.constant("true", torch.tensor(True))
    count = model.constant("most", torch.tensor(most)) if most else ""
    model.output(*model.node("Loop", count, begins, "x", outputs=2, body=body))
    return model


def test_loops_that_data_ends(tmp_path):
    said, loaded = compiled(loop(4), tmp_path)
    for rows in (1, 2, 9):
        for scale in (20.0, 4.0, 1.0, 0.01):
            x = torch.rand(rows) + 0.5
            x *= scale / x.sum()
            want, sums = x, []
            for _ in range(4):
                want = want * 2
                sums.append(want.sum())
                if want.sum() >= 10:
                    break
            y, found = loaded(x).values()
            assert_close(y, want)
            assert_close(found, torch.stack(sums))


@pytest.mark.parametrize("most", (None, 20))
def test_longer_loops_that_data_ends_are_refused(tmp_path, most):
    why = refusal(loop(most), tmp_path)
    assert "'Loop_1'" in why and "how often it turns depends on data" in why
