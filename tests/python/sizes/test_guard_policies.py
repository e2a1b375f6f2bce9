# SPDX-License-Identifier: Apache-2.0
"""Guard policies: what each leaves out, what none leaves out, and that it is counted."""

import pytest
import torch

import ingot as ingot_package


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0

    def forward(self, x):
        return torch.sin(x) * self.scale


def signed(x):
    return x * 2 if bool((x > 0).all()) else x * 3


def compiled(ingot, fn, guards, x):
    step = ingot.compile(fn, wait=True, guards=guards)
    with torch.no_grad():
        step(x)
    return step


def difference(ingot, before):
    after = ingot.stats()
    return {name: after[name] - before[name] for name in ("native_calls", "skipped_watches", "skipped_value_guards", "value_guard_failures")}


ASKS = {"always": lambda call: True, "first": lambda call: call == 0, "sample:3": lambda call: call % 3 == 0, "skip": lambda call: False}


@pytest.mark.parametrize("policy", ASKS)
def test_skipped_watches_are_counted(ingot, policy):
    x = torch.randn(4, 8)
    start = ingot.stats()["native_calls"]
    step = compiled(ingot, Scaled().eval(), policy, x)
    before = ingot.stats()
    done = before["native_calls"] - start  # 1 where another test has left this function in the store
    with torch.no_grad():
        for _ in range(6):
            torch.testing.assert_close(step(x), torch.sin(x) * 2)
    got = difference(ingot, before)
    assert got["native_calls"] == 6
    assert got["skipped_watches"] == sum(not ASKS[policy](call) for call in range(done, done + 6))


def test_a_changed_attribute_is_seen_by_the_policy_alone(ingot):
    x = torch.randn(4, 8)
    for policy, most_calls in (("always", 1), ("sample:4", 4), ("skip", None), ("first", None)):
        module = Scaled().eval()
        step = compiled(ingot, module, policy, x)
        with torch.no_grad():
            step(x)  # "first" has asked now, whether or not the store knew this function
            module.scale = 5.0
            seen = None
            for call in range(1, 9):
                got = step(x)
                if torch.allclose(got, torch.sin(x) * 5):
                    seen = call
                    break
                torch.testing.assert_close(got, torch.sin(x) * 2)
        assert seen is None if most_calls is None else seen <= most_calls, policy


def test_value_guards(ingot):
    x = torch.rand(4, 8) + 1
    always = compiled(ingot, signed, "always", x)
    skipping = ingot.compile(signed, wait=True, guards="skip")
    with torch.no_grad():
        torch.testing.assert_close(skipping(x), x * 2)
        before = ingot.stats()
        torch.testing.assert_close(always(-x), -x * 3)
        assert difference(ingot, before)["value_guard_failures"] == 1
        before = ingot.stats()
        torch.testing.assert_close(skipping(-x), -x * 2)  # asked for: the branch is taken for granted
        got = difference(ingot, before)
    assert got == {"native_calls": 1, "skipped_watches": 1, "skipped_value_guards": 1, "value_guard_failures": 0}


def in_place(x, y):
    x.add_(y)
    return x * 2


@pytest.mark.parametrize("policy", ["always", "first", "sample:1000", "skip"])
def test_memory_safety_is_never_left_out(ingot, policy):
    """Sizes, strides, types, ranks and shared memory: another tensor is never run as the recorded one."""
    base = torch.arange(64.0)
    step = ingot.compile(in_place, wait=True, guards=policy)
    with torch.no_grad():
        for _ in range(3):
            step(torch.ones(8), torch.ones(8))
        cases = [
            (lambda: (torch.ones(9), torch.ones(9))),
            (lambda: (torch.ones(8, dtype=torch.float64), torch.ones(8))),
            (lambda: (torch.ones(2, 4), torch.ones(2, 4))),
            (lambda: (torch.ones(16)[::2], torch.ones(8))),
            (lambda: (torch.ones(8), torch.ones(1).expand(8))),
            (lambda: (torch.ones(0), torch.ones(0))),
        ]
        for make in cases:
            x, y = make()
            again_x, again_y = make()
            torch.testing.assert_close(step(x, y), in_place(again_x, again_y))
            torch.testing.assert_close(x, again_x)
        shared, same = base.clone(), base.clone()
        torch.testing.assert_close(step(shared[:8], shared[:8]), in_place(same[:8], same[:8]))
        torch.testing.assert_close(shared, same)


@pytest.mark.parametrize("bad", ["never", "sample:0", "sample:x", "sample:", "sample:-1", 3, None])
def test_a_bad_policy_says_what_is_allowed(bad):
    with pytest.raises(ingot_package.Invalid, match="'always', 'first', 'skip' or 'sample:N'"):
        ingot_package.Config(guards=bad)


def test_guards_are_printed(ingot):
    x = torch.randn(3, 5)
    exact = ingot.compile(lambda x: torch.cos(x) - 1, wait=True, dynamic=False)
    with torch.no_grad():
        exact(x)
    for step, wanted in ((exact, ("size(0) == 3", "size(1) == 5", "stride(0) == 5", "stride(1) == 1")),
                         (compiled(ingot, lambda x: torch.cos(x) - 2, "always", x), ("size(0) == s0", "size(1) == s1", "stride(0) == s1", "stride(1) == 1"))):
        text = step.as_text("guards")
        assert text.startswith("x.dtype == f32\nx.device == cpu\nx.rank == 2\n" + "".join(f"x.{one}\n" for one in wanted)), text
        assert text.endswith("range: s0 >= 2 and s1 >= 2\n") == (step is not exact), text
