# SPDX-License-Identifier: Apache-2.0
"""Declared sizes: what set_dim_gears and mark_static accept, how gears combine, and what serves them.

Behaviours that torchair's own tests of gears hold it to have their twins here.
"""


import pytest
import torch
from waiting import wait_until


def gear(ingot, sizes, dims, **more):
    t = torch.zeros(sizes)
    ingot.set_dim_gears(t, dims, **more)
    return t


def counted(ingot, *names):
    found = ingot.stats()
    return tuple(found.get(name, 0) for name in names)


class since:
    """Counters of a block of calls."""

    def __init__(self, ingot) -> None:
        self._ingot, self._before = ingot, ingot.stats()

    def __getitem__(self, name):
        return self._ingot.stats().get(name, 0) - self._before.get(name, 0)


def wait_for_others(ingot) -> None:
    """What tests before have begun is counted when it ends."""
    wait_until("what other tests have begun has ended", lambda: not ingot.stats().get("under_way"))


# -- what a declaration may say ---------------------------------------------------------------------

WRONG = {
    "a dim that is no integer": ({1.5: [2, 4]}, r"Dim index in dim_gears must be an integer, but got <class 'float'>\."),
    "a flag for a dim": ({True: [2, 4]}, r"Dim index in dim_gears must be an integer"),
    "a dim that is not there": ({2: [2, 4]}, r"Dim index in dim_gears must be in range \[0, 1\], but got 2\."),
    "a negative dim that is not there": ({-3: [2, 4]}, r"must be in range \[0, 1\], but got -3"),
    "sizes that are no list": ({0: 2}, r"Gears for dim index 0 in dim_gears must be a list or tuple, but got <class 'int'>\."),
    "a size that is no integer": ({0: [2, 1.5]}, r"Element at index 1 of value for dim index 0 in dim_gears must be an integer, but got <class 'float'>\."),
    "a size of zero": ({0: [2, 0]}, r"Gear value at index 1 for dim index 0 must not be 0, but got 0\."),
    "a negative size": ({0: [2, -4]}, r"Gear value at index 1 for dim index 0 must be positive, but got -4"),
    "one size": ({0: [2]}, r"Length of gears for dim index 0 in dim_gears must be in range \[2, 100\], but got 1\."),
    "too many sizes": ({0: list(range(1, 102))}, r"Length of gears for dim index 0 in dim_gears must be in range \[2, 100\], but got 101\."),
    "one dim by two names": ({0: [2, 4], -2: [2, 4]}, r"names one dimension twice"),
    "nothing": ({}, r"At least one dimension should have levels\."),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_declaration_says_why_and_sets_nothing(ingot, name):
    dims, message = WRONG[name]
    t = torch.zeros(2, 4)
    with pytest.raises(AssertionError, match=message):
        ingot.set_dim_gears(t, {1: [4, 8], **dims} if dims and not {1, -2} & set(dims) else dims)
    with pytest.raises(ingot.Invalid):
        ingot.set_dim_gears(t, dims)
    ingot.set_dim_gears(t, {0: [2, 6]})  # Nothing was left half set.


def test_gears_are_set_once(ingot):
    t = gear(ingot, (2, 4), {0: [2, 4]})
    ingot.set_dim_gears(t, {0: [2, 4]})
    ingot.set_dim_gears(t, {-2: (2, 4)})  # The same dim by another name.
    with pytest.raises(AssertionError, match="already has set dim gears, and it is not supported to set it again"):
        ingot.set_dim_gears(t, {0: [2, 8]})


def test_a_size_outside_its_own_gears_is_refused_at_the_first_call(ingot):
    step = ingot.compile(lambda x: x + 1)
    with pytest.raises(AssertionError, match=r"The index 3 of the current tensor shape is not within the range \[2, 4\]"):
        step(gear(ingot, (3, 4), {0: [2, 4]}))


def test_a_call_site_keeps_its_first_gears(ingot):
    step = ingot.compile(lambda x: x + 1, wait=True)
    with torch.no_grad():
        step(gear(ingot, (2, 4), {0: [2, 4]}))
        step(gear(ingot, (4, 4), {0: [2, 4]}))
        with pytest.raises(ingot.Invalid, match="not supported to set them again: tensor 0 dim 0 of .2, 4., then tensor 0 dim 0 of .2, 8."):
            step(gear(ingot, (8, 4), {0: [2, 8]}))


def test_the_merge_policy_is_checked(ingot):
    with pytest.raises(ValueError, match=r"Value 'both' \(type: <class 'str'>\) not in optional list \['zip', 'product'\]"):
        ingot.Gears(merge="both")
    with pytest.raises(ingot.Invalid, match="unknown option 'gears.mrege'"):
        ingot.compile(lambda x: x, config={"gears": {"mrege": "zip"}})
    assert ingot.compile(lambda x: x, config={"gears": {"merge": "product"}}).config.gears.merge == "product"


def test_the_merge_policy_in_a_file(ingot, tmp_path):
    (tmp_path / "ingot.toml").write_text('[gears]\nmerge = "product"\n')
    assert ingot.Config.from_file(tmp_path / "ingot.toml").gears == ingot.Gears("product")


# -- how the gears of several dims combine ------------------------------------------------------------

def merged(ingot, tensors, merge):
    from ingot import gears

    found = gears.declared(tensors, merge)
    return found and sorted(found.gears)


def test_product_gives_every_pair(ingot):
    assert merged(ingot, [gear(ingot, (2, 4), {0: [2, 6], 1: [4, 8]})], "product") == [(2, 4), (2, 8), (6, 4), (6, 8)]


def test_zip_pairs_sizes_and_leaves_other_dims_fixed(ingot):
    from ingot import gears

    tensors = [gear(ingot, (2, 8), {0: [2, 6]}), torch.zeros(3)]
    found = gears.declared(tensors, "zip")
    assert sorted(found.gears) == [(2,), (6,)] and found.static == ((0, 1), (1, 0))


def test_zip_refuses_lists_of_two_lengths(ingot):
    with pytest.raises(AssertionError, match="when dynamic_gears_merge_policy is zip, input gears len must same"):
        merged(ingot, [gear(ingot, (2, 4), {0: [2, 6], 1: [4, 8, 16]})], "zip")


def test_zip_with_repeated_sizes_gives_distinct_pairs(ingot):
    t = gear(ingot, (1, 4), {0: [1, 1, 2, 2, 3, 3, 3], 1: [4, 8, 4, 8, 4, 8, 8]})
    assert merged(ingot, [t], "zip") == [(1, 4), (1, 8), (2, 4), (2, 8), (3, 4), (3, 8)]


def test_a_product_over_a_hundred_is_refused_by_its_number(ingot):
    t = torch.zeros(1, 1, 1)
    ingot.set_dim_gears(t, {0: list(range(1, 10)), 1: list(range(1, 11)), 2: list(range(1, 11))})
    with pytest.raises(AssertionError, match="The total number of gears set cannot exceed 100, and the current number of gears is: 900"):
        merged(ingot, [t], "product")


def test_doubled_sizes_collapse_in_a_product(ingot):
    assert len(merged(ingot, [gear(ingot, (2, 4), {0: [2, 2, 6], 1: [4, 8, 8]})], "product")) == 4


def test_gears_win_over_fixed_dims(ingot):
    t = gear(ingot, (2, 4), {0: [2, 6]})
    ingot.mark_static(t)
    assert merged(ingot, [t], "zip") == [(2,), (6,)]


# -- what serves them -----------------------------------------------------------------------------------

def work(x, y):
    return torch.nn.functional.silu(x) * y.sum(-1, keepdim=True) + x.shape[0]


def test_one_template_serves_every_gear_without_declaring_them_again(ingot):
    step = ingot.compile(work, wait=True)
    with torch.no_grad():
        x, y = torch.randn(2, 8), torch.randn(2, 8)
        ingot.set_dim_gears(x, {0: [2, 4, 6, 8]})
        ingot.set_dim_gears(y, {0: [2, 4, 6, 8]})
        torch.testing.assert_close(step(x, y), work(x, y))
        for rows in (4, 6, 8):
            step(torch.randn(rows, 8), torch.randn(rows, 8))
        seen = since(ingot)
        for rows in (2, 4, 6, 8, 2, 8):
            x, y = torch.randn(rows, 8), torch.randn(rows, 8)
            torch.testing.assert_close(step(x, y), work(x, y))
    assert seen["native_calls"] == 6 and seen["captures"] == 0
    templates = [v for v in step.variants if v["kind"] == "template"]
    assert len(templates) == 1 and templates[0]["range"]


def test_prepare_proves_every_gear_at_once(ingot):
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.SiLU(), torch.nn.Linear(16, 8)).eval()
    step, x = ingot.compile(model), torch.randn(4, 8)
    ingot.set_dim_gears(x, {0: list(range(1, 99))})  # 98 sizes: no parser or list grows out of bounds.
    step.prepare(x)
    seen = since(ingot)
    with torch.no_grad():
        for rows in (1, 2, 50, 98):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(step(x), model(x))
    assert seen["native_calls"] == 4 and seen["captures"] == 0, step.report()


def prepared(ingot, fn, sizes, **config):
    """The compiled function after prepare() on gears of dim 0, and its counters."""
    step, x = ingot.compile(fn, **config), torch.randn(sizes[0], 300)
    ingot.set_dim_gears(x, {0: sizes})
    seen = since(ingot)
    step.prepare(x)
    return step, seen


def agree(step, fn, sizes):
    with torch.no_grad():
        for rows in sizes:
            x = torch.randn(rows, 300)
            # Sums of 300 products in another order.
            torch.testing.assert_close(step(x), fn(x), rtol=1e-5, atol=1e-4)


class MakesFunctions(torch.nn.Module):
    """Functions that a call makes hold its tensors; nobody may hold them when the call is over."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(300, 300)

    def forward(self, x):
        y = self.inner(x)
        once = lambda: y * 2  # noqa: E731
        return torch.nn.functional.silu(once())


def test_what_a_call_makes_does_not_keep_its_tensors(ingot):
    model, sizes = MakesFunctions().eval(), [2, 4, 8, 16, 32]
    step, seen = prepared(ingot, model, sizes)
    assert (seen["deferred"], seen["proven"], seen["deferred_completed"]) == (3, 3, 0), step.report()
    agree(step, model, sizes)


def test_prepare_computes_two_gears_and_proves_the_others(ingot):
    model, sizes = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.GELU(), torch.nn.LayerNorm(300)).eval(), [2, 4, 8, 16, 32]
    step, seen = prepared(ingot, model, sizes)
    assert (seen["captures"], seen["deferred"], seen["proven"], seen["deferred_completed"]) == (5, 3, 3, 0), step.report()
    seen = since(ingot)
    agree(step, model, sizes)
    assert (seen["native_calls"], seen["captures"]) == (5, 0)
    seen = since(ingot)
    x = torch.randn(2, 300)
    ingot.set_dim_gears(x, {0: sizes})
    step.prepare(x)
    assert (seen["native_calls"], seen["captures"]) == (1, 0), "gears that are proved are not run again"


def test_the_first_two_gears_are_compiled_together(ingot):
    weight, sizes = torch.randn(300, 300), [3, 5, 9]
    step, seen = prepared(ingot, lambda x: (x @ weight).tanh() - 3, sizes)
    assert (seen["compiles"], seen["proven"], seen["captures"]) == (1, 1, 3) and step.variants[0]["kind"] == "template", step.report()
    seen = since(ingot)
    agree(step, lambda x: (x @ weight).tanh() - 3, sizes)
    assert (seen["native_calls"], seen["captures"]) == (3, 0)


def test_a_template_of_others_that_serves_one_of_two_gears_leaves_the_other_to_itself(ingot):
    from ingot.site import live

    weight, sizes = torch.randn(300, 300), [2, 4, 8, 16]

    def fn(x):
        return (x @ weight).sigmoid() + 4

    def call(step, rows):
        x = torch.randn(rows, 300)
        ingot.set_dim_gears(x, {0: sizes})
        step(x)

    step, other = ingot.compile(fn), ingot.compile(fn, wait=True)
    with torch.no_grad():
        with next(e for e in live.engines if e.site is step)._compiles.holding() as held:
            call(step, 8)
            call(step, 16)
            assert len(held) == 2
            call(other, 2)
            call(other, 4)  # Their template is stored before ours are sent.
        step.wait()
    seen = since(ingot)
    agree(step, fn, [8, 16])
    assert (seen["native_calls"], seen["captures"]) == (2, 0), step.report()


def test_two_gears_that_make_no_template_are_compiled_each(ingot):
    def fn(x):
        return x.cos() * 2 if x.shape[0] < 10 else x.sin() + 1

    step, seen = prepared(ingot, fn, [4, 16])
    assert (seen["compiles"], seen["captures"], seen["fallbacks"]) == (2, 2, 0), step.report()
    seen = since(ingot)
    agree(step, fn, [4, 16])
    assert (seen["native_calls"], seen["captures"]) == (2, 0)


def test_the_first_gear_is_served_when_the_second_fails(ingot):
    def fn(x):
        if x.shape[0] == 7:
            raise ValueError("seven")
        return x.exp() - 2

    step, x = ingot.compile(fn), torch.randn(6, 300)
    ingot.set_dim_gears(x, {0: [6, 7, 8]})
    with pytest.raises(ValueError, match="seven"):
        step.prepare(x)
    step.wait()
    seen = since(ingot)
    agree(step, fn, [6])
    assert seen["native_calls"] == 1, step.report()


def test_prepare_runs_a_gear_that_no_template_proves(ingot):
    weight = torch.randn(300, 300)

    def fn(x):
        y = x @ weight
        return y * 2 if x.shape[0] < 10 else (y + 1).relu()

    sizes = [2, 4, 8, 16, 32, 64]
    step, seen = prepared(ingot, fn, sizes)
    assert seen["deferred"] >= 1 and seen["fallbacks"] == 0
    seen = since(ingot)
    agree(step, fn, sizes)
    assert (seen["native_calls"], seen["captures"]) == (6, 0), step.report()


def test_prepare_follows_values_as_a_run_does(ingot):
    weight = torch.randn(300, 300)

    def fn(x):
        y = x @ weight
        return y * 2 if y.square().mean() > 0 else y - 1

    sizes = [2, 4, 8, 16]
    step, _ = prepared(ingot, fn, sizes)
    agree(step, fn, sizes)


def test_what_a_function_keeps_for_a_size_has_its_values_after_prepare(ingot):
    weight, kept = torch.randn(300, 300), {}

    class Cached(torch.nn.Module):
        def forward(self, x):
            rows = x.shape[0]
            if rows > 8 and rows not in kept:  # The first two recordings keep nothing.
                kept[rows] = (weight[:rows] @ weight).exp()
            return x @ weight + (kept[rows] if rows > 8 else 0)

    step, seen = prepared(ingot, Cached().eval(), [2, 4, 8, 16, 32])
    assert seen["deferred"] >= 1
    for rows in kept:
        torch.testing.assert_close(kept[rows], (weight[:rows] @ weight).exp())
    agree(step, Cached().eval(), [2, 4, 8, 16, 32])


def test_an_error_in_one_gear_is_the_functions_own(ingot):
    def fn(x):
        y = x @ x.t()
        if x.shape[0] == 16:
            raise RuntimeError("no sixteen")
        return y

    with pytest.raises(RuntimeError, match="no sixteen"):
        prepared(ingot, fn, [2, 4, 8, 16])


ON_A_RANK = """
import json, torch, ingot
import torch.distributed as dist
dist.init_process_group("gloo", init_method="file://{file}", rank=0, world_size=1)
calls = []
def fn(x):
    calls.append(x.shape[0])
    return dist._functional_collectives.all_reduce(x @ x.t(), "sum", dist.group.WORLD) + 1
step, x = ingot.compile(fn), torch.randn(2, 300)
ingot.set_dim_gears(x, {{0: [2, 4, 8, 16]}})
step.prepare(x)
print(json.dumps(dict(calls=calls, **ingot.stats())))
dist.destroy_process_group()
"""


def test_prepare_runs_each_gear_once_where_ranks_may_wait_for_each_other(store, tmp_path):
    found = store.python(ON_A_RANK.format(file=tmp_path / "group"))
    assert found["calls"] == [2, 4, 8, 16] and found["deferred"] == 0, found


def test_prepare_takes_keyword_and_nested_arguments(ingot):
    def f(pair, *, scale):
        return pair["a"] * pair["b"][0] + scale

    step, a, b = ingot.compile(f), torch.randn(2, 3), torch.randn(2, 3)
    for t in (a, b):
        ingot.set_dim_gears(t, {0: [2, 5]})
    step.prepare({"a": a, "b": [b]}, scale=torch.ones(1))
    seen = since(ingot)
    with torch.no_grad():
        step({"a": torch.randn(5, 3), "b": [torch.randn(5, 3)]}, scale=torch.ones(1))
    assert seen["native_calls"] == 1, step.report()


def test_views_in_other_gears_stay_right(ingot):
    def f(x):
        return x.transpose(0, 1).reshape(-1)[:: x.shape[0]] + 1

    step, x = ingot.compile(f), torch.randn(3, 4).t()
    ingot.set_dim_gears(x, {0: [4, 6]})
    step.prepare(x)
    with torch.no_grad():
        for rows in (4, 6):
            for y in (torch.randn(rows, 3), torch.randn(3, rows).t()):
                for _ in range(2):
                    torch.testing.assert_close(step(y), f(y))


def test_a_size_that_is_no_gear_gets_a_variant_of_its_own(ingot):
    step, x = ingot.compile(lambda x: x * 2 + 1, wait=True), torch.randn(2, 4)
    ingot.set_dim_gears(x, {0: [2, 4]})
    with torch.no_grad():
        for rows in (2, 4, 3, 3):
            y = x if rows == 2 else torch.randn(rows, 4)
            torch.testing.assert_close(step(y), y * 2 + 1)
    (variant,) = step.variants
    assert variant["kind"] == "template" and ingot.stats()["captures"] == 1, "one recording serves what is no gear, too"


@pytest.mark.parametrize("on_miss", ["eager", "error", "pad"])
def test_one_call_proves_every_gear_and_no_other_size(ingot, on_miss):
    more = {"eager": 1.0, "error": 2.0, "pad": 3.0}[on_miss]  # A graph of its own: the store is shared.
    step, x = ingot.compile(lambda x: torch.tanh(x) @ x.t() + more, on_miss=on_miss), torch.randn(4, 8)
    ingot.set_dim_gears(x, {0: [4, 6, 9, 16]})
    before = ingot.stats()
    with torch.no_grad():
        step(x)
        step.wait(60)
        for rows in (4, 6, 9, 16):
            y = torch.randn(rows, 8)
            torch.testing.assert_close(step(y), torch.tanh(y) @ y.t() + more)
        now = ingot.stats()
        assert (now["captures"] - before["captures"], now["native_calls"] - before["native_calls"]) == (1, 4)
        other = torch.randn(5, 8)
        if on_miss == "error":
            with pytest.raises(ingot.NotFound, match="is no gear"):
                step(other)
        else:
            torch.testing.assert_close(step(other), torch.tanh(other) @ other.t() + more)
            assert ingot.stats()["native_calls"] - now["native_calls"] <= (1 if on_miss == "pad" else 0)


def test_a_size_that_is_no_gear_may_be_an_error_that_names_the_nearest(ingot):
    step, x = ingot.compile(lambda x: x * 2, wait=True, on_miss="error"), torch.randn(8, 4)
    ingot.set_dim_gears(x, {0: [4, 8, 32]})
    with torch.no_grad():
        step(x)
        step(torch.randn(32, 4))
        with pytest.raises(ingot.NotFound, match=r"size \(9,\) is no gear; the nearest are \[\(8,\), \(4,\), \(32,\)\]"):
            step(torch.randn(9, 4))


def test_a_size_that_is_no_gear_may_run_eagerly(ingot):
    step, x = ingot.compile(lambda x: x * 2, wait=True, on_miss="eager"), torch.randn(8, 4)
    ingot.set_dim_gears(x, {0: [4, 8]})
    with torch.no_grad():
        step(x)
        seen, y = since(ingot), torch.randn(5, 4)
        for _ in range(3):
            torch.testing.assert_close(step(y), y * 2)
        assert (seen["captures"], seen["fallbacks"]) == (0, 3)


def test_padding_cuts_the_answer_and_serves_natively(ingot):
    step, x = ingot.compile(lambda x: (torch.softmax(x, -1), x.shape[1]), wait=True, on_miss="pad"), torch.randn(8, 4)
    ingot.set_dim_gears(x, {0: [4, 8]}, pad=0)
    with torch.no_grad():
        step.prepare(x)
        seen, y = since(ingot), torch.randn(5, 4)
        for _ in range(3):
            answer, width = step(y)
            assert width == 4 and answer.shape == (5, 4)
            torch.testing.assert_close(answer, torch.softmax(y, -1))
        assert (seen["captures"], seen["native_calls"], seen["padded_calls"]) == (0, 3, 3)
        y = torch.randn(9, 4)  # Over the largest gear: a variant of its own.
        torch.testing.assert_close(step(y)[0], torch.softmax(y, -1))


def test_padding_that_changes_the_answer_is_given_up(ingot):
    step, x = ingot.compile(lambda x: x.mean(0), wait=True, on_miss="pad"), torch.randn(8, 4)
    ingot.set_dim_gears(x, {0: [4, 8]}, pad=0)
    with torch.no_grad():
        step.prepare(x)
        y = torch.randn(5, 4)
        for _ in range(3):
            torch.testing.assert_close(step(y), y.mean(0))


def test_nothing_is_padded_where_a_call_writes(ingot):
    """A filled copy would be written in the argument's place, and a module's buffer twice where the answers are compared."""
    seen = torch.zeros(())

    def step(x):
        seen.add_(1)
        return x.mul_(2)

    compiled, x = ingot.compile(step, wait=True, on_miss="pad"), torch.ones(8, 4)
    ingot.set_dim_gears(x, {0: [4, 8]}, pad=0)
    with torch.no_grad():
        for calls, rows in enumerate((8, 8, 4, 5, 5, 5, 3, 3), 1):
            x = torch.ones(rows, 4)
            torch.testing.assert_close(compiled(x), torch.full((rows, 4), 2.0))
            torch.testing.assert_close(x, torch.full((rows, 4), 2.0))
            assert seen == calls
    assert ingot.stats().get("padded_calls", 0) == 0


def test_padding_is_given_up_where_values_decide_the_size(ingot):
    step = ingot.compile(lambda x: x[x > 0], wait=True, on_miss="pad")
    torch.manual_seed(0)
    with torch.no_grad():
        for number, columns in enumerate([8, 4, 16, 5, 5, 5, 5, 5]):
            x = torch.randn(3, columns)
            if number == 0:
                ingot.set_dim_gears(x, {1: [4, 8, 16]}, pad=0)
            torch.testing.assert_close(step(x), x[x > 0])


def test_fixed_dims_get_code_of_their_own(ingot):
    step = ingot.compile(lambda x: x * 2 + 1, wait=True)
    with torch.no_grad():
        for rows in (2, 3, 4):
            x = torch.randn(rows, 4)
            ingot.mark_static(x, 0)
            for _ in range(2):
                torch.testing.assert_close(step(x), x * 2 + 1)
        seen = since(ingot)
        for rows in (4, 3, 2):
            x = torch.randn(rows, 4)  # Not marked: the call site remembers.
            torch.testing.assert_close(step(x), x * 2 + 1)
    assert seen["native_calls"] == 3 and all(v["kind"] == "exact" for v in step.variants), step.report()


def narrow(x):
    """Short loops: code for a known size is faster."""
    return torch.softmax(x, -1) + x.cumsum(0).mean(-1, keepdim=True)


def narrow_prepared(ingot, sizes=(5, 16, 24, 40, 300), rows=6, **config):
    step, x = ingot.compile(narrow, **config), torch.randn(rows, sizes[0])
    ingot.set_dim_gears(x, {1: list(sizes)})
    step.prepare(x)
    return step


def test_gears_get_code_of_their_own_where_loops_are_short(ingot):
    wait_for_others(ingot)
    seen = since(ingot)
    step = narrow_prepared(ingot)
    assert (seen["specialized"], seen["fallbacks"], seen["retired"]) == (1, 0, 0), step.report()
    (variant,) = step.variants
    assert variant["special_kernels"] > 0 and variant["special_kernels"] % 4 == 0, "300 is too long to gain"
    loops = step.as_text("loop")
    assert all(f"loop [{size}]" in loops for size in ("s0", 5, 16, 24, 40)) and "loop [300]" not in loops, loops
    seen = since(ingot)
    with torch.no_grad():
        for size in (5, 16, 24, 40, 300) * 3:
            x = torch.randn(6, size)
            torch.testing.assert_close(step(x), narrow(x))
    assert (seen["native_calls"], seen["captures"]) == (15, 0)


def test_code_for_gears_is_asked_for_once(ingot):
    narrow_prepared(ingot, (6, 18, 36))
    seen = since(ingot)
    step = narrow_prepared(ingot, (6, 18, 36))
    assert (seen["specialized"], seen["entry_hits"]) == (0, 1) and step.variants[-1]["special_kernels"] > 0, step.report()


def test_code_for_gears_can_be_left_out(ingot):
    seen, sizes = since(ingot), (7, 20, 30)
    step = narrow_prepared(ingot, sizes, config={"gears": {"specialize": False}})
    assert seen["specialized"] == 0 and step.variants[0]["special_kernels"] == 0
    narrow_prepared(ingot, sizes)
    assert seen["specialized"] == 1 and seen["entry_hits"] == 0, "what is left out is part of the key"
    with pytest.raises(ingot.Invalid, match="gears.specialize='no': expected True or False"):
        ingot.compile(narrow, config={"gears": {"specialize": "no"}})


def test_long_loops_share_the_code_of_all_sizes(ingot):
    step, seen = prepared(ingot, lambda x: torch.softmax(x, -1), [2, 4, 8])  # 300 lie along the lanes in every gear.
    assert seen["specialized"] == 0 and step.variants[0]["kernels"] == 1


def test_gears_that_arrive_one_by_one_get_their_code_with_the_template(ingot):
    step, sizes = ingot.compile(narrow, wait=True), [5, 16, 24, 40]
    seen = since(ingot)
    with torch.no_grad():
        for size in sizes:
            x = torch.randn(6, size)
            if size == sizes[0]:
                ingot.set_dim_gears(x, {1: sizes})
            torch.testing.assert_close(step(x), narrow(x))
        step.wait()
        assert seen["specialized"] == 1 and step.variants[0]["special_kernels"] % 4 == 0, step.report()
        for size in sizes:
            x = torch.randn(6, size)
            torch.testing.assert_close(step(x), narrow(x))
    assert seen["native_calls"] >= 4 and seen["fallbacks"] == 0


def test_code_for_gears_that_cannot_be_had_changes_nothing(ingot, monkeypatch):
    from ingot.site import compiles

    send = compiles.Compiles._send
    monkeypatch.setattr(compiles.Compiles, "_send", lambda self, job: send(self, job._replace(gears=job.gears[:-1])))
    step = ingot.compile(lambda x: x.softmax(-1).cumsum(0))
    x = torch.randn(4, 8)
    ingot.set_dim_gears(x, {0: [4, 8], 1: [8, 24]})
    seen = since(ingot)
    step.prepare(x)
    assert seen["specialized"] == 0 and seen["retired"] == 0 and step.variants[0]["special_kernels"] == 0
    seen = since(ingot)
    with torch.no_grad():
        for rows, columns in ((4, 8), (8, 24)):
            x = torch.randn(rows, columns)
            torch.testing.assert_close(step(x), x.softmax(-1).cumsum(0))
    assert (seen["native_calls"], seen["captures"]) == (2, 0)


GEARED = '''
import json, torch, ingot
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8)).eval()
step, x = ingot.compile(model, wait=True, config={{"gears": {{"merge": "{merge}"}}}}), torch.randn(2, 8)
ingot.set_dim_gears(x, {{0: {sizes}}})
with torch.no_grad():
    {first}
    right = []
    for rows in {sizes}:
        y = torch.randn(rows, 8)
        right.append(torch.allclose(step(y), model(y), atol=1e-6))
print(json.dumps(dict(right=all(right), why=step.why_miss(), **ingot.stats())))
'''


SAVED = """
import json, torch, ingot, sys
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8)).eval()
step, x = ingot.compile(model, wait=True), torch.randn(2, 8)
ingot.set_dim_gears(x, {0: [2, 4, 8]})
if sys.argv[-1] == "save":
    step.save_capture("saved.ingotcap", x)
    print(json.dumps(ingot.stats()))
else:
    with torch.no_grad():
        right = [torch.allclose(step(y), model(y), atol=1e-6) for y in (x, torch.randn(4, 8), torch.randn(8, 8))]
    print(json.dumps(dict(right=all(right), why=step.why_miss(), **ingot.stats())))
"""


def test_warm_compiles_all_gears_without_the_program(store, tmp_path):
    store.python(SAVED.replace("sys.argv[-1]", "'save'"), tmp_path)
    told = store.json("warm", str(tmp_path / "saved.ingotcap"))["captures"]
    assert [row["outcome"] for row in told] == ["compiled", "proven", "proven"]
    assert [row["outcome"] for row in store.json("warm", str(tmp_path / "saved.ingotcap"))["captures"]] == ["proven", "proven", "proven"]
    found = store.python(SAVED.replace("sys.argv[-1]", "'run'"), tmp_path)
    assert found["right"] and (found["captures"], found["entry_hits"], found["native_calls"]) == (0, 1, 3), found
    (tmp_path / "bad.ingotcap").write_bytes((tmp_path / "saved.ingotcap").read_bytes()[:-9])
    said = store.cli("warm", str(tmp_path / "bad.ingotcap"), check=False)
    assert said == ""  # Nothing is sent; the reason is on standard error.


NARROW = """
import json, torch, ingot
step, x = ingot.compile(lambda x: torch.softmax(x * 2, -1), wait=True), torch.randn(6, 8)
ingot.set_dim_gears(x, {1: [8, 16, 24]})
FIRST
with torch.no_grad():
    right = [torch.allclose(step(y), torch.softmax(y * 2, -1)) for y in (x, torch.randn(6, 16), torch.randn(6, 24))]
print(json.dumps(dict(right=all(right), special=[v["special_kernels"] for v in step.variants], **ingot.stats())))
"""


def test_warm_makes_code_for_the_saved_gears(store, tmp_path):
    store.python(NARROW.replace("FIRST", "step.save_capture('narrow.ingotcap', x), print('{}'), exit()"), tmp_path)
    told = store.json("warm", str(tmp_path / "narrow.ingotcap"))
    assert [row["outcome"] for row in told["captures"]] == ["compiled", "proven", "proven"] and told["specialized"] == 1
    found = store.python(NARROW.replace("FIRST", ""), tmp_path)
    assert found["right"] and 3 in found["special"] and (found["captures"], found["native_calls"]) == (0, 3), found


def test_a_new_process_has_the_code_of_all_gears(store):
    first = store.python(NARROW.replace("FIRST", "step.prepare(x)"))
    assert first["right"] and first["special"] == [3] and first["specialized"] == 1, first
    second = store.python(NARROW.replace("FIRST", ""))
    assert second["right"] and 3 in second["special"] and (second["captures"], second["specialized"]) == (0, 0), second


def test_a_capture_that_cannot_be_made_says_why(ingot, tmp_path):
    import time

    step = ingot.compile(lambda x: x + time.time())
    with pytest.raises(ingot.Unsupported, match="time.time"):
        step.save_capture(tmp_path / "no.ingotcap", torch.ones(2))
    assert not (tmp_path / "no.ingotcap").exists()


def test_a_new_process_has_all_gears_at_once(store):
    first = store.python(GEARED.format(merge="zip", sizes=[2, 4, 8, 16], first="step.prepare(x)"))
    assert first["right"] and first["captures"] == 4 and first["compiles"] == 1, first
    second = store.python(GEARED.format(merge="zip", sizes=[2, 4, 8, 16], first="step(x)"))
    assert second["right"] and (second["captures"], second["entry_hits"], second["native_calls"]) == (0, 1, 5), second
    other = store.python(GEARED.format(merge="zip", sizes=[2, 4, 8], first="step(x)"))
    assert other["right"] and other["entry_hits"] == 0 and "gears sizes" in other["why"], other["why"]
