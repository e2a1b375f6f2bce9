# SPDX-License-Identifier: Apache-2.0
"""What users wrap and pass: every case must equal eager on the recorded call and on native ones."""

import collections
import dataclasses
import functools
import math
import types
import warnings

import pytest
import torch
import torch.nn.functional as F


def check(ingot, fn, *args, native=True, calls=2, **kwargs):
    """Runs fn recorded, then natively, on equal copies of the arguments; compares with eager."""
    step = ingot.compile(fn, wait=True)
    before = ingot.stats()
    with torch.no_grad():
        for _ in range(1 + calls):
            expected = fn(*copies(args), **copies(kwargs))
            assert_same(step(*copies(args), **copies(kwargs)), expected)
    after = ingot.stats()
    served = after["native_calls"] - before["native_calls"]
    # The store is the session's: where an equal function was met before, the first call is native too.
    assert native is None or (served >= calls if native else served == 0), step.report()
    return step


def copies(value):
    if isinstance(value, torch.Tensor):
        return value.clone()
    if type(value) in (list, tuple):
        return type(value)(copies(v) for v in value)
    if type(value) is dict:
        return {k: copies(v) for k, v in value.items()}
    return value


def assert_same(got, expected, path="result"):
    assert type(got) is type(expected), path
    if isinstance(expected, torch.Tensor):
        assert got.stride() == expected.stride() or expected.numel() == 0 or 1 in expected.shape, path
        torch.testing.assert_close(got, expected, equal_nan=True, msg=lambda m: f"{path}: {m}")
    elif isinstance(expected, dict):
        assert list(got) == list(expected), path
        for key in expected:
            assert_same(got[key], expected[key], f"{path}[{key!r}]")
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected), path
        for i, (a, b) in enumerate(zip(got, expected)):
            assert_same(a, b, f"{path}[{i}]")
    elif dataclasses.is_dataclass(expected):
        for field in dataclasses.fields(expected):
            assert_same(getattr(got, field.name), getattr(expected, field.name), f"{path}.{field.name}")
    else:
        assert got == expected, path


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.norm = torch.nn.LayerNorm(8)
        self.scale = 0.5
        self.register_buffer("table", torch.arange(8.0))

    def forward(self, x, mask=None):
        y = F.gelu(self.linear(self.norm(x))) * self.scale + self.table
        return y if mask is None else y * mask

    def twice(self, x):
        return self.forward(self.forward(x))


@pytest.fixture
def block():
    torch.manual_seed(0)
    return Block().eval()


def test_function(ingot):
    check(ingot, lambda x, y: F.silu(x) * y + 1.0, torch.randn(4, 16), torch.randn(4, 16))


def test_module(ingot, block):
    check(ingot, block, torch.randn(3, 8))


def test_bound_method(ingot, block):
    check(ingot, block.twice, torch.randn(3, 8))


def test_keyword_arguments(ingot, block):
    check(ingot, block, torch.randn(3, 8), mask=torch.ones(3, 1))


def test_decorator(ingot):
    @ingot.compile
    def doubled(x):
        """Doubles."""
        return x * 2 + 1

    x = torch.randn(5)
    with torch.no_grad():
        assert_same(doubled(x), x * 2 + 1)
    assert doubled.__name__ == "doubled" and doubled.__doc__ == "Doubles."


def test_decorated_method(ingot):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(4))

        @ingot.compile(wait=True)
        def forward(self, x):
            return torch.sigmoid(x) * self.w

    model, x = Model(), torch.randn(3, 4)
    before = ingot.stats()["native_calls"]
    with torch.no_grad():
        for _ in range(3):
            assert_same(model(x), torch.sigmoid(x) * model.w)
    assert ingot.stats()["native_calls"] - before == 2


Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Box:
    value: torch.Tensor
    label: str = "box"


def test_containers_in(ingot):
    def fn(parts, table, pair):
        return parts[0] + parts[1][0] * table["k"] - pair.left / (1 + pair.right ** 2)

    t = lambda: torch.randn(2, 3)  # noqa: E731
    check(ingot, fn, [t(), (t(),)], {"k": t()}, Pair(t(), t()))


def test_dataclass_in_and_out(ingot):
    def fn(box):
        return Box(box.value * 2, box.label)

    check(ingot, fn, Box(torch.randn(3)))


def test_containers_out(ingot):
    def fn(x):
        return {"a": x + 1, "b": [x * 2, (x.sum(), None, "text", 3, 2.5, True)], "c": Pair(x, -x)}

    check(ingot, fn, torch.randn(2, 3))


def test_sizes_come_back_as_sizes(ingot):
    step = ingot.compile(lambda x: (x + 1, x.shape), wait=True)
    with torch.no_grad():
        first, second = (step(torch.ones(2, 3))[1] for _ in range(2))
    assert type(first) is type(second) is torch.Size and first == second == torch.Size([2, 3])


def test_none_and_scalars_are_part_of_the_shape(ingot):
    def fn(x, factor, flag, nothing):
        return x * factor if flag else x + (1 if nothing is None else 2)

    step = ingot.compile(fn, wait=True)
    x = torch.randn(6)
    with torch.no_grad():
        for factor, flag in ((2.0, True), (3.0, True), (2.0, False), (2.0, True), (3, True)):
            for _ in range(2):
                assert_same(step(x, factor, flag, None), fn(x, factor, flag, None))


def test_in_place_changed_input(ingot):
    def fn(x, y):
        x.add_(y)
        x.mul_(2)
        return x.sum()

    step = ingot.compile(fn, wait=True)
    with torch.no_grad():
        for _ in range(3):
            a, y = torch.randn(4, 5), torch.randn(4, 5)
            b = a.clone()
            assert_same(step(a, y), fn(b, y))
            assert_same(a, b, "input")


def test_in_place_through_a_view(ingot):
    def fn(x, y):
        x[1:3].copy_(y)
        x[:, 0] += 1
        return x * 2

    step = ingot.compile(fn, wait=True)
    with torch.no_grad():
        for _ in range(3):
            a, y = torch.randn(4, 5), torch.randn(2, 5)
            b = a.clone()
            assert_same(step(a, y), fn(b, y))
            assert_same(a, b, "input")


def test_buffer_updated(ingot):
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x):
            self.seen.add_(x)
            return self.seen * 2

    model, twin = Counter(), Counter()
    step = ingot.compile(model, wait=True)
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(3)
            assert_same(step(x), twin(x))
            assert_same(model.seen, twin.seen)


def test_returned_views_share_memory_as_in_eager(ingot):
    def fn(x):
        y = x * 2
        return y, y.t(), x[0]

    step = ingot.compile(fn, wait=True)
    x = torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(3):
            y, t, row = step(x)
            assert_same((y, t, row), fn(x))
            assert y.data_ptr() == t.data_ptr() and row.data_ptr() == x.data_ptr()


def test_returned_input_and_parameter_are_the_same_tensors(ingot, block):
    def fn(x):
        return x, block.linear.weight, x + 1

    step = ingot.compile(fn, wait=True)
    x = torch.randn(2)
    with torch.no_grad():
        for _ in range(3):
            out = step(x)
            assert out[0].data_ptr() == x.data_ptr() and out[1].data_ptr() == block.linear.weight.data_ptr()


def test_closure_and_unregistered_tensors(ingot, block):
    table = torch.randn(8)
    block.hidden = {"caches": [torch.randn(8)]}

    def fn(x):
        return block(x) + table * block.hidden["caches"][0]

    check(ingot, fn, torch.randn(2, 8))


def test_tied_weights(ingot):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(16, 8)
            self.head = torch.nn.Linear(8, 16, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(self.embed(ids))

    check(ingot, Tied().eval(), torch.randint(0, 16, (2, 5)))


def test_a_weight_changed_in_place_or_replaced_is_seen(ingot, block):
    step = check(ingot, block, torch.randn(3, 8))
    x = torch.randn(3, 8)
    with torch.no_grad():
        block.linear.weight.mul_(3)
        assert_same(step(x), block(x))
        block.linear.weight = torch.nn.Parameter(torch.randn(8, 8))
        assert_same(step(x), block(x))
        assert_same(step(x), block(x))
        block.linear.weight.data = torch.randn(8, 8)
        assert_same(step(x), block(x))
        block.linear = torch.nn.Linear(8, 8)
        assert_same(step(x), block(x))


def test_changed_attributes_and_methods_are_seen(ingot, block):
    step = check(ingot, block, torch.randn(3, 8))
    x = torch.randn(3, 8)
    with torch.no_grad():
        block.scale = 4.0
        assert_same(step(x), block(x))
        block.train()
        block.eval()
        block.norm.eps = 0.1
        assert_same(step(x), block(x))
        Block.forward, original = (lambda self, x, mask=None: x * 7), Block.forward
        try:
            assert_same(step(x), x * 7)
        finally:
            Block.forward = original


def test_one_recording_makes_a_template_of_a_range(ingot):
    class Ranged(Block):
        """A class of its own: no other test has stored its sizes."""

    block = Ranged().eval()
    step, before = ingot.compile(block, wait=True), ingot.stats()["native_calls"]
    with torch.no_grad():
        for rows in (3, 5, 7, 9, 2):
            x = torch.randn(rows, 8)
            for _ in range(2):
                assert_same(step(x), block(x))
        counts = ingot.stats()
        assert (counts["captures"], counts["proven"], counts["native_calls"] - before) == (1, 0, 9), step.report()
        assert [(v["kind"], v["range"]) for v in step.variants] == [("template", "s0 >= 2")]
        # One row lies outside, and is proved by a recording of its own.
        x = torch.randn(1, 8)
        for _ in range(2):
            assert_same(step(x), block(x))
    counts = ingot.stats()
    assert (counts["captures"], counts["proven"], counts["native_calls"] - before) == (2, 1, 10), step.report()


def test_what_python_compares_sizes_with_bounds_the_range(ingot):
    def fn(x):
        half = x.shape[0] // 2 if x.shape[0] % 2 == 0 else x.shape[0]
        return x[:half] * 2 if x.shape[0] < 40 and x.shape[1] != 6 else x.sin() + 1

    step = ingot.compile(fn, wait=True)
    with torch.no_grad():
        for sizes in ((7, 5), (9, 5), (11, 8), (7, 6), (41, 5), (40, 5), (39, 7), (8, 5), (10, 5), (7, 7), (1, 5), (7, 1), (0, 5)):
            x = torch.randn(sizes)
            for _ in range(2):
                assert_same(step(x), fn(x))
    ranges = {v["range"] for v in step.variants}
    assert any("s0 % 2 != 0" in text and "s0 <= 39" in text for text in ranges), ranges
    assert any("s0 <= 38" in text and "s1 != 6" in text for text in ranges), ranges


def test_a_second_size_makes_a_template_and_each_size_is_proved_once(ingot):
    class Own(Block):
        """A class of its own: no other test has stored its sizes."""

        def forward(self, x, mask=None):
            # Nobody follows a float, so that a recording is of its size alone; yet all have one graph.
            return super().forward(x * 2 if math.sqrt(x.shape[0]) > 10 else x, mask)

    block = Own().eval()
    step = ingot.compile(block, wait=True)
    with torch.no_grad():
        for rows in (3, 5, 7, 9):
            x = torch.randn(rows, 8)
            for _ in range(2):
                assert_same(step(x), block(x))
    counts = ingot.stats()
    # An equal graph of another test's class is a hit instead of a compile.
    assert (counts["captures"], counts["compiles"] + counts["graph_hits"], counts["proven"]) == (4, 2, 2), step.report()
    assert [v["kind"] for v in step.variants] == ["template"]


def test_dynamic_false_makes_a_variant_for_each_size(ingot, block):
    step = ingot.compile(block, wait=True, dynamic=False)
    with torch.no_grad():
        for rows in (3, 5):
            x = torch.randn(rows, 8)
            step(x)
            assert_same(step(x), block(x))
    assert sorted(v["kind"] for v in step.variants) == ["exact", "exact"]


def test_python_that_branches_on_a_size_gets_its_own_variant(ingot):
    def fn(x):
        return x * 2 if x.shape[0] < 4 else x.sin() + 1

    step = ingot.compile(fn, wait=True)
    with torch.no_grad():
        for rows in (2, 6, 2, 6):
            x = torch.randn(rows, 3)
            assert_same(step(x), fn(x))
            assert_same(step(x), fn(x))


def test_a_value_that_steered_python_is_guarded(ingot):
    def fn(x):
        return x + 1 if x.sum().item() > 0 else x - 1

    step = ingot.compile(fn, wait=True)
    with torch.no_grad():
        for x in (torch.ones(3), torch.ones(3), -torch.ones(3), torch.ones(3), -torch.ones(3)):
            assert_same(step(x), fn(x))


def test_random_operators_use_the_live_generator(ingot):
    def fn(x):
        return x + torch.randn_like(x)

    step = ingot.compile(fn, wait=True)
    x = torch.zeros(64)
    with torch.no_grad():
        step(x)
        torch.manual_seed(3)
        a = step(x)
        b = step(x)
        torch.manual_seed(3)
        assert_same(a, fn(x))
        assert_same(b, fn(x))


@pytest.mark.parametrize("name,fn", [
    ("escape-numpy", lambda x: x + float(x.numpy()[0])),
    ("call", lambda x: x + __import__("random").random()),
    ("call", lambda x: x * (__import__("time").time() > 0)),
])
def test_refusals_have_a_name_and_still_answer(ingot, name, fn):
    step = ingot.compile(fn, wait=True)
    x = torch.randn(3)
    with torch.no_grad():
        for _ in range(3):
            assert isinstance(step(x), torch.Tensor)
    assert ingot.stats()[f"refused_{name}"] >= 1
    assert name in step.report()


def test_a_stored_number_is_stored_again(ingot, block):
    def fn(x):
        block.last = x.shape[0] + 100
        return x + 1

    step, before = ingot.compile(fn, wait=True), ingot.stats()["native_calls"]
    with torch.no_grad():
        for rows in (1, 2, 1, 2):
            block.last = None
            step(torch.randn(rows))
            assert block.last == rows + 100
    assert ingot.stats()["native_calls"] - before == 2


def test_side_effects_that_cannot_be_done_again_are_refused(ingot, block):
    def fn(x):
        block.last = lambda: x
        return x + 1

    step = ingot.compile(fn, wait=True)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(2)
            step(x)
            assert block.last() is x
    assert ingot.stats()["refused_side-effect"] >= 1


def test_a_stored_tensor_is_set_again_on_replay(ingot, block):
    def fn(x):
        block.hidden = x * 2
        return x + 1

    step = ingot.compile(fn, wait=True)
    block.hidden = torch.zeros(3)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(3)
            step(x)
            assert_same(block.hidden, x * 2)


def test_inputs_that_require_grad_run_eagerly(ingot, block):
    step = ingot.compile(block, wait=True)
    x = torch.randn(3, 8, requires_grad=True)
    step(x).sum().backward()
    assert x.grad is not None
    assert ingot.stats()["fallbacks"] + ingot.stats()["refusals"] >= 1


def test_tensor_subclasses_run_eagerly(ingot):
    class Marked(torch.Tensor):
        pass

    step = ingot.compile(lambda x: x + 1, wait=True)
    x = torch.randn(3).as_subclass(Marked)
    with torch.no_grad():
        assert isinstance(step(x), Marked)
    assert ingot.stats()["refused_subclass"] == 1


def test_a_failure_after_a_write_says_so(ingot, tmp_path):
    def fn(x, other):
        x.index_add_(0, torch.tensor([0]), torch.ones(1, 2))  # Written in place: ATen can do it no other way.
        return torch.linalg.cholesky(other)

    step = ingot.compile(fn, wait=True)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(step(torch.eye(2), torch.eye(2)), torch.eye(2))
        assert "in place" in step.as_text("plan")
        step.export(tmp_path / "f.ingot")
        for call in (step, ingot.load(tmp_path / "f.ingot")):
            x = torch.zeros(2, 2)
            with pytest.raises(ingot.HalfDone, match="had written to its inputs or to the module before") as caught:
                call(x, -torch.eye(2))
            assert caught.value.code == "half_done" and isinstance(caught.value, RuntimeError)
            assert_same(x, torch.tensor([[1.0, 1], [0, 0]]))


def test_exceptions_of_the_function_pass_through(ingot):
    def fn(x):
        if x.shape[0] > 2:
            raise KeyError("mine")
        return x

    step = ingot.compile(fn)
    with pytest.raises(KeyError, match="mine"):
        step(torch.randn(3))
    step(torch.randn(2))


def test_inference_mode(ingot, block):
    step = ingot.compile(block, wait=True)
    with torch.inference_mode():
        for _ in range(3):
            x = torch.randn(3, 8)
            assert_same(step(x), block(x))


def test_loops_over_many_elements_let_other_threads_run(ingot):
    import sys
    import threading

    def many(x):
        return torch.exp(torch.sin(x) * torch.cos(x)) + torch.tanh(x)

    step = ingot.compile(many, wait=True)
    x = torch.linspace(0, 1, 1 << 23)
    now, seen = ["before"], []
    begins = threading.Event()

    def watch():
        begins.wait()
        seen.append(now[0])

    with torch.no_grad():
        step(x)
        native = ingot.stats()["native_calls"]
        watcher = threading.Thread(target=watch)
        watcher.start()
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)  # Seconds: the other thread runs where this one lets it.
        try:
            now[0] = "meanwhile"
            begins.set()
            result = step(x)  # To free a tensor lets others run, too.
            now[0] = "after"
        finally:
            sys.setswitchinterval(interval)
            watcher.join()
    assert ingot.stats()["native_calls"] == native + 1 and step.variants[0]["aten_steps"] == 0
    assert seen == ["meanwhile"]
    assert_same(result, many(x))


def test_several_threads(ingot, block):
    import threading

    step = ingot.compile(block, wait=True)
    x = torch.randn(3, 8)
    with torch.no_grad():
        step(x)
    failures = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(50):
            x = torch.randn(3, 8, generator=generator)
            with torch.no_grad():
                if not torch.allclose(step(x), block(x), atol=1e-6):
                    failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_export_and_load(ingot, block, tmp_path):
    step = check(ingot, block, torch.randn(3, 8))
    path = str(tmp_path / "block.ingot")
    step.export(path)
    loaded = ingot.load(path)
    with torch.no_grad():
        for rows in (3, 9):
            x = torch.randn(rows, 8)
            assert_same(loaded(x), block(x))
    with pytest.raises(ingot.Invalid, match="size 9 at dim 1"):
        loaded(torch.randn(3, 9))
    with pytest.raises(ingot.Invalid, match=r"sizes \[1\] are not among those that may be served .*s0 >= 2"):
        loaded(torch.randn(1, 8))
    data = bytearray(open(path, "rb").read())
    for at in (0, 9, 40, len(data) // 2, len(data) - 1):
        damaged = bytes(data[:at]) + bytes([data[at] ^ 1]) + bytes(data[at + 1:])
        open(path, "wb").write(damaged)
        with pytest.raises((ingot.Corrupt, ingot.Incompatible)):
            ingot.load(path)


def test_an_exported_file_holds_every_size_that_the_function_was_compiled_for(ingot, tmp_path):
    torch.manual_seed(0)
    linear = torch.nn.Linear(8, 4).eval()

    def fn(x):
        y = linear(x)
        # Code of its own for one row, and another result. Nobody follows a float: each size is proved by itself.
        return y.sum(0) if math.sqrt(x.shape[0]) > 1 else {"row": y[0]}

    step = ingot.compile(fn, wait=True)
    with torch.no_grad():
        for rows in (3, 5, 1):
            step(torch.randn(rows, 8))
        step(torch.randn(2, 2, 8))
    path = tmp_path / "all.ingot"
    step.export(str(path))
    loaded = ingot.load(str(path))
    with torch.no_grad():
        for rows in (1, 3, 5):
            x = torch.randn(rows, 8)
            assert_same(loaded(x), fn(x))
    with pytest.raises(ingot.Invalid):
        loaded(torch.randn(3, 9))
    with pytest.raises(ingot.Invalid):
        loaded(torch.randn(4, 8))
    weights = sum(parameter.nbytes for parameter in linear.parameters())
    content = path.read_bytes()
    assert content.count(linear.weight.detach().numpy().tobytes()) == 1 and len(content) > weights, "weights are shared"


def test_an_exported_file_holds_a_range_with_a_quotient(ingot, tmp_path):
    def fn(x):
        half = x.shape[0] // 2
        return x[:half] * 2 + x[half:2 * half]

    step = ingot.compile(fn, wait=True)
    with torch.no_grad():
        for _ in range(2):
            step(torch.randn(5, 8))
    path = tmp_path / "half.ingot"
    step.export(path)
    loaded = ingot.load(path)
    for rows in (5, 6, 9, 2):
        x = torch.randn(rows, 8)
        assert_same(loaded(x), fn(x))


def test_wrong_arguments_are_named(ingot, block):
    with pytest.raises(ingot.Invalid, match="pass an instance"):
        ingot.compile(Block)
    with pytest.raises(ingot.Invalid, match="takes a function"):
        ingot.compile(3)
    with pytest.raises(ingot.Invalid, match="on_miss"):
        ingot.compile(block, on_miss="perhaps")
    with pytest.raises(ingot.Invalid, match="unknown option 'speed'"):
        ingot.compile(block, config={"speed": 11})
    with pytest.raises(TypeError):
        ingot.cache_compile(block, fast=True)


def test_on_miss_error_names_the_nearest_variant(ingot, block):
    ingot.compile(block, wait=True).prepare(torch.randn(3, 8))
    strict = ingot.compile(block, on_miss="error")
    with torch.no_grad():
        assert_same(strict(torch.ones(3, 8)), block(torch.ones(3, 8)))
        assert_same(strict(torch.ones(4, 8)), block(torch.ones(4, 8)))
        with pytest.raises(ingot.NotFound, match="size 9 at dim 1, this variant needs 8"):
            strict(torch.randn(3, 9))


def test_texts(ingot, block):
    step = check(ingot, block, torch.randn(3, 8))
    assert "aten.linear" in step.as_text("graph") or "aten.addmm" in step.as_text("graph")
    assert "kernel" in step.as_text("plan")
    assert "code" in step.soundness()


def test_nested_compiled_functions(ingot, block):
    inner = ingot.compile(block, wait=True)
    check(ingot, lambda x: inner(x) * 2, torch.randn(3, 8))


def test_partial_and_callable_objects(ingot):
    class Adder:
        def __init__(self):
            self.t = torch.randn(3)

        def __call__(self, x):
            return x + self.t

    check(ingot, Adder(), torch.randn(3))
    step = ingot.compile(functools.partial(torch.add, torch.ones(3)), wait=True)
    with torch.no_grad():
        assert_same(step(torch.ones(3)), torch.full((3,), 2.0))


def test_as_a_dynamo_backend(ingot):
    from ingot.backend import ingot as backend

    def fn(x, y):
        z = F.silu(x) * y
        return z / y.sum(-1, keepdim=True).clamp(min=1e-6)

    step = torch.compile(fn, backend=functools.partial(backend, options={"wait": True}))
    before = ingot.stats()["native_calls"]
    with torch.no_grad():
        for _ in range(3):
            x, y = torch.randn(4, 16), torch.rand(4, 16)
            assert_same(step(x, y), fn(x, y))
    assert ingot.stats()["native_calls"] - before >= 2, ingot.stats()


def test_a_fault_of_ours_still_gives_the_eager_answer(ingot, monkeypatch):
    from ingot.trace import dependencies, keys

    def broken(*args, **kwargs):
        raise RuntimeError("a bug")

    def fn(x):
        return x * 3

    x = torch.randn(4)
    with torch.no_grad():
        for module, name in ((dependencies, "of_operators"), (keys, "entry_key")):
            with monkeypatch.context() as patch:
                patch.setattr(module, name, broken)
                step = ingot.compile(fn, wait=True)
                assert_same(step(x), fn(x))
    assert ingot.stats()["refused_internal"] == 2


@pytest.mark.parametrize("inner", [torch.compile(lambda x: x * 2 + 1, backend="eager"),
                                   lambda x: torch.cond(x.sum() > 0, lambda y: y * 2 + 1, lambda y: y - 1, (x,))])
def test_a_function_that_compiles_runs_eagerly(ingot, inner):
    step = ingot.compile(lambda x: inner(x), wait=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            assert step(torch.ones(2)).tolist() == [3, 3]
    assert torch.overrides._len_torch_function_stack() == 0
    assert not step.variants and step.why_miss(as_dict=True)["reason"] in ("refused", "in_parts")


def test_a_pure_callable_is_called_when_recorded_only(ingot):
    import zlib

    step = ingot.compile(lambda x: x + zlib.crc32(b"ingot") % 7, wait=True)
    x = torch.ones(2)
    with torch.no_grad():
        for _ in range(3):
            step(x)
        assert not step.variants and "zlib.crc32" in step.why_miss()
        step.wait()  # What follows has the same text, and finds what was found out of this one.
        ingot.mark_pure(zlib.crc32)
        pure = ingot.compile(lambda x: x + zlib.crc32(b"ingot") % 7, wait=True)
        for _ in range(2):
            assert_same(pure(x), x + zlib.crc32(b"ingot") % 7)
    assert pure.variants and ingot._native.marked_pure() >= {"zlib.crc32"}
    with pytest.raises(ingot.Invalid, match="takes a callable"):
        ingot.mark_pure(3)


def test_a_method_that_is_compiled_already(ingot):
    class Model:
        @ingot.compile(wait=True)
        def run(self, x):
            return x * 3

    model, x = Model(), torch.ones(4)
    with torch.no_grad():
        model.run(x)
        model.run(x)
    check(ingot, model.run, x)


def test_a_copy_of_a_function_with_other_globals(ingot):
    def scaled(x):
        return x * FACTOR  # noqa: F821

    for factor in (2.0, 3.0):
        copy = types.FunctionType(scaled.__code__, {"FACTOR": factor, "__name__": __name__}, "scaled")
        check(ingot, copy, torch.ones(3), native=None)


def test_a_trace_of_torch_jit_sees_the_operators(ingot):
    step = ingot.compile(lambda x: x * 3 + 1, wait=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step(torch.ones(3))
        step(torch.ones(3))
        traced = torch.jit.trace(lambda x: step(x) + x, torch.ones(3))
    assert traced(torch.arange(3.0)).tolist() == [1.0, 5.0, 9.0]


def test_results_of_as_strided_lie_in_their_argument(ingot):
    def windows(x):
        return x.as_strided((3, 2), (2, 1)), 5

    step = check(ingot, windows, torch.arange(8.0))
    x = torch.arange(8.0)
    with torch.no_grad():
        step(x)[0].zero_()
    assert x.tolist() == [0, 0, 0, 0, 0, 0, 6, 7]


def test_equal_results_are_two_where_an_operator_gives_a_view_and_does_not_say_so(ingot):
    def diagonals(a, b):
        return torch.einsum("ii->i", a @ b), a @ b

    step = check(ingot, diagonals, torch.ones(2, 2), torch.ones(2, 2))
    with torch.no_grad():
        diagonal, whole = step(torch.ones(2, 2), torch.ones(2, 2))
    whole.zero_()
    assert diagonal.tolist() == [2.0, 2.0]


def test_strides_of_dimensions_of_size_one_are_guarded(ingot):
    def layout(x):
        return x * 2 if x.stride(1) == 1 else x * 3

    step = ingot.compile(layout, wait=True)
    with torch.no_grad():
        for x in (torch.ones(3, 1), torch.ones(3, 1), torch.ones(3, 7)[:, :1].as_strided((3, 1), (1, 7)), torch.ones(3, 1)):
            assert_same(step(x), layout(x))


def test_marks_of_autograd_are_part_of_a_call(ingot):
    def marks(x):
        return x.is_leaf, x.grad_fn is None, x.requires_grad, x.is_inference(), x.detach() * 2

    step = ingot.compile(marks, wait=True)
    made = torch.ones(3, requires_grad=True) * 2
    with torch.inference_mode():
        inferred = torch.ones(3)
    with torch.no_grad():
        for x in (torch.ones(3), torch.ones(3), made, made, inferred, inferred, torch.ones(3, requires_grad=True)):
            assert_same(step(x), marks(x))
