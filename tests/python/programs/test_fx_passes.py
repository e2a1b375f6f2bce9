# SPDX-License-Identifier: Apache-2.0
"""Passes of the user's own over what torch.export gives."""

import textwrap

import pytest
import torch


def doubled(module):
    """Every relu is taken twice as large."""
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target is torch.ops.aten.relu.default:
            with module.graph.inserting_after(node):
                twice = module.graph.call_function(torch.ops.aten.mul.Tensor, (node, 2))
            node.replace_all_uses_with(twice)
            twice.args = (node, 2)


doubled.version = "1"


def compiled(ingot, *passes, function=lambda x: x.relu() + 1):
    return ingot.compile(function, capture="export", passes=passes, wait=True)


def test_a_pass_changes_what_is_compiled(ingot):
    step, x = compiled(ingot, doubled), torch.ones(3, 4)
    with torch.no_grad():
        step(x)
        assert step(x)[0, 0].item() == 3
        assert step(torch.ones(5, 6))[4, 5].item() == 3  # A range of sizes is proved for what the pass has left.
    assert step.variants[-1]["range"]


def test_a_pass_may_return_another_module(ingot):
    class Copies:
        version = "7"

        def __call__(self, module):
            return torch.fx.GraphModule(module, module.graph)

    step, x = compiled(ingot, Copies(), doubled), torch.ones(3)
    with torch.no_grad():
        step(x)
        assert step(x)[0].item() == 3


@pytest.mark.parametrize("passes, why", [
    ([lambda module: None], "no version"),
    ([3], "expected a function"),
    ("doubled", "expected a list"),
])
def test_what_is_no_pass_is_refused(ingot, passes, why):
    with pytest.raises(ingot.Invalid, match=why):
        ingot.compile(lambda x: x, capture="export", passes=passes)


def test_a_pass_without_a_version_is_named(ingot):
    def unversioned(module):
        return module

    for version in ("", 3):
        unversioned.version = version
        with pytest.raises(ingot.Invalid, match=f"unversioned has version={version!r}: expected a string"):
            ingot.compile(lambda x: x, capture="export", passes=[unversioned])
    with pytest.raises(ingot.Invalid, match="capture is 'record'"):
        ingot.compile(lambda x: x, passes=[doubled])


@pytest.mark.parametrize("broken, why", [
    (lambda module: 1 / 0, "ZeroDivisionError"),
    (lambda module: 3, "returned int"),
    (lambda module: [module.graph.erase_node(node) for node in module.graph.nodes if node.op == "placeholder"], "RuntimeError"),
])
def test_a_pass_that_fails_leaves_the_function(ingot, caplog, broken, why):
    def failing(module):
        return broken(module)

    failing.version = why  # Else the second of these would be served what the first has left.
    step, x = compiled(ingot, failing), torch.ones(3)
    with torch.no_grad():
        answers = [step(x)[0].item() for _ in range(2)]
    assert answers == [2, 2]
    assert why in caplog.text and f"failing of version {why!r}" in caplog.text


RUN = textwrap.dedent('''
    import json, os, torch, ingot
    def shifted(module): pass
    shifted.version = os.environ["VERSION"]
    step, x = ingot.compile(lambda x: x.relu() + 1, capture="export", passes=[shifted], wait=True), torch.ones(3)
    with torch.no_grad():
        step(x), step(x)
    print(json.dumps(dict(miss=step.why_miss(as_dict=True), **ingot.stats())))
''')


def test_the_version_is_in_the_key(store):
    first, again, other = (store.python(RUN, VERSION=version) for version in ("1", "1", "2"))
    assert (first["captures"], again["captures"], other["captures"]) == (1, 0, 1)
    miss = other["miss"]
    assert (miss["component"], miss["item"], miss["stored"], miss["asked"]) == ("config", "pass __main__.shifted", "1", "2"), miss
