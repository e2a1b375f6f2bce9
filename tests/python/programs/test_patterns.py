# SPDX-License-Identifier: Apache-2.0
"""User patterns: what they find, what they leave alone and why, and what keys say of them."""

import textwrap

import pytest
import torch
import torch.nn.functional as F

from conftest import ROOT

SIZES = (5, 8)


@pytest.fixture
def patterns(ingot):
    from ingot import patterns

    yield patterns
    for pattern in patterns.registered():
        ingot.unregister_pattern(pattern)


def rms(x, w):
    return F.rms_norm(x, (x.shape[-1],), w, 1e-6)


def search_add_norm(x, r, w):
    total = x + r
    return F.rms_norm(total, (total.shape[-1],), w, 1e-6), total


def replace_add_norm(x, r, w):
    total = x + r
    return total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + 1e-6) * w, total


def examples(*sizes):
    torch.manual_seed(0)
    return [torch.randn(*size) for size in sizes]


def applied(step):
    """Of the newest variant: how often each pattern was applied, and why not elsewhere."""
    return {name: (replaced, why) for name, replaced, why in step.variants[-1].get("patterns", ())}


def serve(ingot, function, *args):
    step = ingot.compile(function, wait=True)
    with torch.no_grad():
        step(*args)
        got, expected = step(*args), function(*args)
    torch.testing.assert_close(got, expected)
    return step


def test_a_pattern_with_two_results_is_applied_at_any_size(ingot, patterns):
    ingot.register_pattern(search_add_norm, replace_add_norm, examples((4, 16), (4, 16), (16,)), name="add_norm")

    def block(x, r, w):
        for _ in range(3):
            x, r = search_add_norm(x, r, w)
        return x + r

    step = serve(ingot, block, *examples((3, 24), (3, 24), (24,)))
    assert applied(step) == {"add_norm": (3, "")}
    assert "pattern add_norm: replaced 3 times" in step.report()
    assert "aten.rms_norm" not in step.as_text("optimized").partition("pattern ")[0]


def test_numbers_that_are_written_down_must_be_equal(ingot, patterns):
    ingot.register_pattern(lambda x: F.leaky_relu(x * 2.0, 0.25), lambda x: torch.where(x >= 0, x * 2.0, x * 0.5), examples(SIZES), name="leaky")
    found, missed = (serve(ingot, lambda x, by=by: F.leaky_relu(x * by, 0.25), *examples(SIZES)) for by in (2.0, 3.0))
    assert applied(found) == {"leaky": (1, "")}
    replaced, why = applied(missed)["leaky"]
    assert replaced == 0 and "3.0" in why and "2.0" in why
    assert f"pattern leaky: replaced nothing: {why}" in missed.report()


def test_numbers_among_the_examples_may_be_any(ingot, patterns):
    ingot.register_pattern(lambda x, w, eps: F.rms_norm(x, (x.shape[-1],), w, eps),
                           lambda x, w, eps: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w,
                           [*examples((4, 16), (16,)), 0.5], name="norm")
    step = serve(ingot, lambda x, w: F.rms_norm(x, (8,), w, 0.125) + F.rms_norm(x, (8,), w, 2.0), *examples(SIZES, (8,)))
    assert applied(step) == {"norm": (2, "")}


@pytest.mark.parametrize("function, why", [
    (lambda x, w: rms(x, w) * x.new_ones(1).double(), ""),
    (lambda x, w: rms(x.double(), w.double()), "f32 of rank"),
    (lambda x, w: rms(x[None], w), "of rank 2"),
    (lambda x, w: x + 1, "the graph has no aten.rms_norm"),
])
def test_types_and_ranks_are_those_of_the_examples(ingot, patterns, function, why):
    ingot.register_pattern(rms, lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w, examples((4, 16), (16,)), name="norm")
    replaced, found = applied(serve(ingot, function, *examples(SIZES, (8,))))["norm"]
    assert (replaced, why in found) == ((1, True) if not why else (0, True)), found


def test_what_lies_between_may_have_no_other_user(ingot, patterns):
    ingot.register_pattern(lambda x, y: F.silu(x) * y, lambda x, y: x * torch.sigmoid(x) * y, examples(SIZES, SIZES), name="silu_mul")

    def shared(x, y):
        gate = F.silu(x)
        return gate * y + gate

    replaced, why = applied(serve(ingot, shared, *examples(SIZES, SIZES)))["silu_mul"]
    assert replaced == 0 and why == "what aten.silu gives is also used by aten.add.Tensor"


def test_equal_sizes_are_equal_everywhere(ingot, patterns):
    ingot.register_pattern(lambda x: x.relu().neg(), lambda x: torch.clamp(-x, max=0), examples((4, 4)), name="square")
    assert applied(serve(ingot, lambda x: x.relu().neg(), *examples((6, 6))))["square"][0] == 1
    replaced, why = applied(serve(ingot, lambda x: x.relu().neg().exp(), *examples((6, 7))))["square"]
    assert replaced == 0 and "size 1 of 'x'" in why


def test_sizes_of_the_place_are_those_of_the_replacement(ingot, patterns):
    ingot.register_pattern(lambda x: torch.cat([x.sin(), x.cos()], -1), lambda x: torch.stack([x.sin(), x.cos()], 1).reshape(x.shape[0], 2 * x.shape[1]),
                           examples((4, 6)), name="sides")
    step = serve(ingot, lambda x: torch.cat([x.sin(), x.cos()], -1) * 2, *examples((3, 10)))
    assert applied(step)["sides"][0] == 1


def test_a_replacement_with_an_operator_of_the_users_own(ingot, patterns):
    @torch.library.custom_op("ingot_patterns::scaled_silu", mutates_args=())
    def scaled_silu(x: torch.Tensor, by: float) -> torch.Tensor:
        return F.silu(x) * by

    @scaled_silu.register_fake
    def _(x, by):
        return torch.empty_like(x)

    ingot.register_pattern(lambda x, by: F.silu(x) * by, lambda x, by: torch.ops.ingot_patterns.scaled_silu(x, by), [*examples((4, 16)), 0.5], name="own")
    step = serve(ingot, lambda x: (F.silu(x) * 3.0 + 1).exp(), *examples(SIZES))
    assert applied(step) == {"own": (1, "")}
    assert "ingot_patterns.scaled_silu(%x, 3.0)" in step.as_text("optimized")


def test_functions_that_differ_are_refused(ingot, patterns):
    with pytest.raises(ingot.Invalid, match="result 0 of replace is not that of search"):
        ingot.register_pattern(lambda x: x.exp(), lambda x: x.exp() + 1, examples(SIZES), name="wrong")
    with pytest.raises(ingot.Invalid, match="returns 1 tensors, replace returns 2"):
        ingot.register_pattern(lambda x: x.exp(), lambda x: (x.exp(), x), examples(SIZES), name="more")
    assert not patterns.registered()
    ingot.register_pattern(lambda x: x.exp(), lambda x: x.exp() + 1, examples(SIZES), name="wrong", check=False)


WEIGHT = torch.ones(8)


def of_many(x):
    for _ in range(200):
        x = x.sin()
    return x


@pytest.mark.parametrize("function, why", [
    (lambda x: x + WEIGHT, "none of its arguments"),
    (lambda x: x * 1 if x.sum() > 0 else x, "reads a number out of a tensor"),
    (lambda x: torch.nn.functional.dropout(x, 0.5, True), "gives other values in every call"),
    (of_many, "at most 128"),
    (lambda x: 3, "expected a tensor"),
    (torch.exp, "expected a Python function"),
])
def test_what_makes_no_pattern_is_refused(ingot, patterns, function, why):
    with pytest.raises(ingot.Error, match=why):
        ingot.register_pattern(function, function, examples(SIZES), name="none", check=False)
    assert not patterns.registered()


def test_an_argument_that_nothing_uses_is_refused(ingot, patterns):
    with pytest.raises(ingot.Unsupported, match="nothing uses its argument 'y'"):
        ingot.register_pattern(lambda x, y: x.exp(), lambda x, y: x.exp() + 0 * y, examples(SIZES, SIZES), name="unused")


def test_a_number_that_decides_more_than_a_value_is_refused(ingot, patterns):
    with pytest.raises(ingot.Invalid, match="other numbers"):
        ingot.register_pattern(lambda x, n: x.reshape(n, -1), lambda x, n: x.clone().reshape(n, -1), [*examples((4, 6)), 3], name="rows")


def test_names_and_lists(ingot, patterns):
    first = ingot.register_pattern(rms, rms, examples((4, 16), (16,)))
    assert first.name == f"{__name__}.rms" and patterns.registered() == (first,)
    assert ingot.register_pattern(rms, rms, examples((4, 16), (16,))) == first
    with pytest.raises(ingot.Invalid, match="another one of that name"):
        ingot.register_pattern(lambda x: x.exp(), lambda x: x.exp(), examples(SIZES), name=first.name)
    ingot.unregister_pattern(first)
    with pytest.raises(ingot.NotFound, match="not registered"):
        ingot.unregister_pattern(first.name)


RUN = textwrap.dedent('''
    import json, os, torch, ingot
    if os.environ.get("MINE"):
        by = float(os.environ["MINE"])
        ingot.register_pattern(lambda x: x.relu() * 2, lambda x: torch.where(x > 0, x * by, 0), [torch.ones(3, 4)], name="mine", check=False)
    step, x = ingot.compile(lambda x: x.relu() * 2, wait=True), torch.ones(2, 8)
    with torch.no_grad():
        answers = [step(x)[0, 0].item() for _ in range(2)]
    print(json.dumps(dict(answers=answers, miss=step.why_miss(as_dict=True), **ingot.stats())))
''')


def test_other_processes_and_other_patterns(store):
    first, again, other, plain = (store.python(RUN, MINE=by) for by in ("5", "5", "7", ""))
    assert plain["answers"] == [2, 2] and first["answers"][1] == 5 and again["answers"] == [5, 5] and other["answers"][1] == 7
    assert (again["captures"], again["native_calls"]) == (0, 2)
    assert (other["miss"]["reason"], other["miss"]["component"], other["miss"]["item"]) == ("key_differs", "patterns", "mine"), other["miss"]


SAVE = RUN.replace("with torch.no_grad():", "with torch.no_grad():\n    step.save_capture(os.environ['CAPTURE'], x)")


def test_a_saved_capture_has_its_patterns(store, tmp_path):
    capture = tmp_path / "calls.capture"
    other = type(store)(tmp_path / "other")
    try:
        other.python(SAVE, MINE="5", CAPTURE=str(capture))
        store.cli("warm", str(capture))
        served = store.python(RUN, MINE="5")
        assert served["answers"] == [5, 5] and served["captures"] == 0
    finally:
        other.cli("daemon", "stop", check=False)


def test_the_example_of_the_documentation_runs(store):
    text = (ROOT / "docs" / "passes.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    found = store.python(code + "import json\nprint(json.dumps(step.report()))")
    assert "pattern add_norm: replaced 2 times" in found, found
