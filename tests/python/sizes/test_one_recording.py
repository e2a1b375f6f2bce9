# SPDX-License-Identifier: Apache-2.0
"""One recording serves all sizes that take the same way: what Python asks of sizes becomes the range."""

import collections.abc
import contextlib
import enum
import gc
import math
import operator
import signal
import threading
import time

import pytest
import torch


@contextlib.contextmanager
def counted(ingot):
    """What the counters gain meanwhile."""
    before, seen = ingot.stats(), {}
    yield seen
    seen.update({name: value - before.get(name, 0) for name, value in ingot.stats().items() if isinstance(value, int)})


def ranges(step):
    return sorted(variant["range"] for variant in step.variants)


def check(step, function, sizes):
    """Every call equals eager's."""
    with torch.no_grad():
        for size in sizes:
            x = torch.randn(*size)
            torch.testing.assert_close(step(x), function(x))


def branching(x):
    b, n = x.shape
    y = x.view(b * n).relu()
    if n > 10:
        y = y * 2
    return y.view(b, n)[:, : n // 2]


def loops(x):
    total = x.sum()
    for _ in range(x.shape[0]):
        total = total + 1
    return total


def compares(x, y):
    return x + y if x.shape == y.shape else x.sum()


def identities(x):
    # Python keeps one object for each small integer, and a program may rely on it.
    return x * 2 if x.shape[0] is 3 else x * 5  # noqa: F632


def hashes(x):
    names = {2: "two", 3: "three"}
    return x * len(names[x.shape[0]]), len({x.shape[0], 3})


def extremes(x):
    return x[: min(x.shape[0], x.shape[1], 7)]


def asks_whether_contiguous(x):
    return x.view(-1) if x.is_contiguous() else x.sum(0)


def pads(x):
    return torch.nn.functional.pad(x, (0, 16 - x.shape[1] % 16))


def takes_parts(x):
    n = x.shape[1]
    return x[:, : n - 1] + x[:, 1:], x[:, -1], x[0, n - 2]


def names_sizes(x):
    return x * 2, x.shape[0], len(f"{x.shape[1]} columns")


def counts_on(x):
    total = x
    for i, _ in enumerate((1, 2), x.shape[0]):
        total = total + i
    return total


def takes_few(x):
    return x[:3, :5] * 2, x.clone()[:2], operator.getitem(x, slice(0, 4)) + 1


def stores_few(x):
    y = x.clone()
    y[:3] = 7
    y[:, :5] += 1
    return y


def divides_a_number(x):
    return x * (10 // x.shape[0]), torch.zeros(40 // x.shape[1]) + x.sum()


def leaves_over(x):
    rows, n = x.shape
    y = torch.nn.functional.pad(x, (0, -n % 4)).view(rows, -1, 4).sum(1)
    return y, x[:, n % 3 :], x * (n % 2) if rows % 2 else x[: rows - rows % 4]


def folds(x):
    return x.reshape(sum(x.shape) - x.shape[0] - x.shape[1] + x.shape.numel()), x.size(-1) * x


def puts(x):
    y = torch.zeros(x.shape[0], x.shape[1] + 3)
    y[:, 3:] = x
    y[:, : x.shape[1] // 2] += 1
    return y


def test_a_comparison_is_part_of_the_range(ingot):
    step = ingot.compile(branching, wait=True)
    check(step, branching, [(3, 6)])
    assert len(ranges(step)) == 1 and "s1 <= 10" in ranges(step)[0]
    with counted(ingot) as seen:
        check(step, branching, [(2, 2), (5, 10), (7, 3), (4, 9)])
    assert (seen["captures"], seen["native_calls"]) == (0, 4), step.report()
    with counted(ingot) as seen:
        check(step, branching, [(3, 11), (3, 40), (2, 12)])
    assert (seen["captures"], seen["native_calls"]) == (1, 2), step.report()


@pytest.mark.parametrize("function", [loops, identities, hashes, extremes, asks_whether_contiguous, pads, takes_parts, names_sizes, puts, counts_on,
                                      takes_few, stores_few, folds, divides_a_number,
                                      leaves_over])
def test_sizes_that_were_never_recorded_are_eagers(ingot, function):
    for first in ((3, 5), (2, 9), (4, 4)):
        step = ingot.compile(function, wait=True)
        with torch.no_grad():
            for size in (first, (3, 5), (2, 2), (3, 8), (2, 9), (8, 3), (4, 4), (5, 17), (9, 16), (1, 6), (6, 1)):
                for x in (torch.randn(*size), torch.randn(*reversed(size)).t()):
                    outcome = []
                    for call in (step, function):
                        try:
                            outcome.append(call(x.clone(memory_format=torch.preserve_format)))
                        except (KeyError, IndexError, RuntimeError) as error:
                            outcome.append(type(error))
                    found, wanted = outcome
                    if isinstance(wanted, type) or isinstance(found, type):
                        assert found is wanted, (first, size)
                    else:
                        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5, msg=f"{first} {size}")


def test_results_that_python_computes_of_sizes_are_told_apart(ingot):
    def halves(x):
        return x * 2, int(x.shape[0] / 4)  # What a fraction becomes is followed by nobody.

    step = ingot.compile(halves, wait=True)
    with torch.no_grad():
        for size in (2, 4, 3, 5, 2, 8, 4, 3, 9, 5):
            assert step(torch.ones(size, 3))[1] == size // 4, (size, step.report())


def test_two_inputs_of_one_shape(ingot):
    step = ingot.compile(compares, wait=True)
    with torch.no_grad():
        for a, b in (((3, 4), (3, 4)), ((5, 6), (5, 6)), ((5, 6), (6, 5)), ((2, 2), (2, 2)), ((4, 4), (4, 5))):
            x, y = torch.randn(*a), torch.randn(*b)
            torch.testing.assert_close(step(x, y), compares(x, y))
    assert "s0 >= 2 and s1 >= 2" in ranges(step), step.report()


TABLE = torch.linspace(-1, 1, 18).reshape(1, 3, 3, 2)


def positions(x):
    """As a vision transformer has them: as many as patches, in one way by convolution and in another by dividing."""
    patches = torch.nn.functional.conv2d(x, torch.ones(2, 3, 8, 8) / 64, stride=8)
    grid = torch.nn.functional.interpolate(TABLE.permute(0, 3, 1, 2), size=(x.shape[2] // 8, x.shape[3] // 8), mode="bicubic",
                                           align_corners=False)
    return patches.flatten(2) + grid.permute(0, 2, 3, 1).reshape(1, -1, 2).transpose(1, 2)


def doubles(x):
    y = torch.nn.functional.interpolate(x, size=(x.shape[2] * 2, x.shape[3] + 3))
    z = torch.nn.functional.interpolate(x, size=[x.shape[2], 5], mode="bilinear", antialias=True)
    return y.sum((2, 3)) + z.mean((2, 3))


@pytest.mark.parametrize("function", [positions, doubles])
def test_images_are_resized_to_what_python_computes(ingot, function):
    torch.manual_seed(0)
    step = ingot.compile(function, wait=True)
    with torch.no_grad():
        step(torch.randn(1, 3, 32, 40))
        with counted(ingot) as seen:
            for height, width in ((33, 47), (80, 24), (17, 100), (40, 32)):
                x = torch.randn(1, 3, height, width)
                torch.testing.assert_close(step(x), function(x), rtol=1e-4, atol=1e-4)
    assert (seen["captures"], seen["native_calls"]) == (0, 4), step.report()


def test_a_convolution_serves_images_of_every_size(ingot):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, 2, 1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.AdaptiveAvgPool2d((1, 1)),
                              torch.nn.Flatten(), torch.nn.Linear(4, 2)).eval()
    step = ingot.compile(net, wait=True)
    with torch.no_grad():
        step(torch.randn(1, 3, 20, 33))
        with counted(ingot) as seen:
            for size in ((21, 33), (64, 40), (17, 18), (100, 7)):
                x = torch.randn(1, 3, *size)
                torch.testing.assert_close(step(x), net(x))
    assert (seen["captures"], seen["native_calls"]) == (0, 4), step.report()


def llama():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                      vocab_size=64, max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=None)
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("options", [{}, {"num_beams": 2}, {"cache_implementation": "static"}], ids=["greedy", "beams", "static"])
def test_generate_is_native_after_two_recordings(ingot, options):
    model = llama()
    ids = torch.randint(3, 64, (2, 7))
    mask = torch.ones_like(ids)
    mask[0, :2] = 0

    def run():
        return model.generate(ids, attention_mask=mask, max_new_tokens=12, do_sample=False, **options)

    wanted = run()
    assert ingot.accelerate(model, wait=True) is model
    with counted(ingot) as seen:
        assert torch.equal(run(), wanted)
    assert seen["captures"] <= 4, model.forward.report()
    with counted(ingot) as seen:
        assert torch.equal(run(), wanted)
    assert (seen["captures"], seen["native_calls"]) == (0, 12), model.forward.report()


class Growing(torch.nn.Module):
    """A cache that is treated otherwise as it reaches nine tokens, has ten, and has more."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def start(self):
        self.kept = torch.zeros(1, 1, 4)

    def forward(self, x):
        self.kept = torch.cat([self.kept, self.linear(x)], 1)
        n = self.kept.shape[1]
        if n < 9:
            return self.kept.sum(1)
        if n == 9:
            return self.kept.sum(1) * 2
        return self.kept.sum(1) - 1 if n == 10 else self.kept[:, -8:].sum(1)


def test_a_size_of_nothing_is_an_index_as_others_are(ingot):
    def counts(x):
        return x * 2, x.shape[0]

    def look(names, n):
        return names[n]

    def put(places, n):
        places[n] += 1

    names = [str(i) for i in range(2000)]
    for i in range(100):  # Code that runs often is specialised by Python: it reads the digits of an index, however many there are.
        look(names, i), put([0] * 101, i)
    with torch.no_grad():
        junk = [int(str(1000 + i)) for i in range(1000)]
        del junk
        found = [ingot.compile(counts, wait=True)(torch.ones(0, 4))[1] for _ in range(3)]
    places = [0] * 2000
    for n in found:
        assert look(names, n) == "0" and n == 0
        put(places, n)
    assert places[0] == 3 and sum(places) == 3


def test_abstract_classes_look_into_classes_that_nobody_changes(ingot):
    def asks(x):
        return x * (3 if isinstance(1j, collections.abc.Collection) else 2 if isinstance((), collections.abc.Reversible) else 1)

    step = ingot.compile(asks, wait=True, on_unsupported="error")  # Nobody has asked so yet: the answer is not at hand.
    with torch.no_grad():
        for n in (2, 3):
            found = step(torch.ones(n))
            assert torch.equal(found, asks(torch.ones(n)))


def test_a_cache_that_is_an_attribute_of_a_module_serves_every_length(ingot):
    model, inputs = Growing(), torch.randn(5, 1, 1, 4)
    with torch.no_grad():
        step = ingot.compile(model, wait=True)
        for n in (1, 2, 3):  # A tensor that is assigned is asked whether it is a parameter, which says nothing of its sizes.
            model.kept = torch.zeros(1, n, 4)
            step(inputs[0])
        with counted(ingot) as seen:
            for n in (4, 5, 6, 7):
                model.kept = torch.zeros(1, n, 4)
                step(inputs[0])
        assert (seen["captures"], seen["native_calls"]) == (0, 4), step.report()


def test_ways_that_follow_each_other_are_recorded_in_one_run(ingot):
    torch.manual_seed(0)
    model, inputs = Growing(), torch.randn(14, 1, 1, 4)

    def run(step):
        model.start()
        answers = [step(x) for x in inputs]
        return answers, model.kept

    with torch.no_grad():
        wanted = run(model)
        step = ingot.compile(model)
        for i in range(3):
            with counted(ingot) as seen:
                torch.testing.assert_close(run(step), wanted)
            step.wait()
        assert (seen["captures"], seen["native_calls"]) == (0, 14), (i, step.report())


def test_accelerate_names_what_holds_no_module(ingot):
    with pytest.raises(ingot.Invalid, match="holds one; found a dict"):
        ingot.accelerate({})


def test_accelerate_takes_what_holds_a_module(ingot):
    class Pipeline:
        def __init__(self):
            self.model = torch.nn.Linear(3, 2)

    pipeline = Pipeline()
    assert ingot.accelerate(ingot.accelerate(pipeline, wait=True)) is pipeline
    x = torch.randn(4, 3)
    with torch.no_grad():
        pipeline.model(x)
        with counted(ingot) as seen:
            torch.testing.assert_close(pipeline.model(x), torch.nn.functional.linear(x, pipeline.model.weight, pipeline.model.bias))
    assert seen["native_calls"] == 1


def looks_up(x):
    names = {5: 1.0, 6: 2.0}
    return torch.tanh(x) * names.get(x.shape[1], 3.0)


def test_soundness_names_what_fixed_a_size_also_of_what_is_stored(ingot):
    line = looks_up.__code__.co_firstlineno + 2
    with torch.no_grad():
        for captures in (1, 0):
            before = ingot.stats()["captures"]
            step = ingot.compile(looks_up)
            step(torch.ones(4, 5))
            step.wait(60)
            assert f"fixed: a size of 5, at test_one_recording.py:{line}" in step.soundness().splitlines()
            assert "size of 4" not in step.soundness() and ingot.stats()["captures"] - before == captures


RATIOS = {
    "half": (lambda x: x[:, :int(x.shape[1] * 0.5)] * 2, 1),
    "three halves of a difference": (lambda x: torch.arange(int((x.shape[1] - 2) * 1.5)), 1),
    "rounded up": (lambda x: x[:, :math.ceil(x.shape[1] / 4)] + 1, 1),
    "a third": (lambda x: x[:, :math.floor(x.shape[1] / 3)] + 1, 1),
    "from behind": (lambda x: x[:, int(-x.shape[1] / 2):], 1),
    "shifted": (lambda x: x[:, :x.shape[1] >> 1] * 2, 1),
    "a power": (lambda x: torch.arange(x.shape[1] ** 2), 1),
    "a factor": (lambda x: x * (1.0 / x.shape[1]), 1),
    "a quotient of a sum": (lambda x: x.sum(1) / (x.shape[1] / 2) - float(x.shape[0]), 1),
    "a way": (lambda x: x * 2 if x.shape[1] / 4 > 4.5 else x * 3, 2),
    "the smaller": (lambda x: x * min(1.0, x.shape[1] / 16), 2),
    "returned": (lambda x: (x * 1, x.shape[1] / 4, 1 / x.shape[1]), 1),
    "a module with a size": (lambda x: HELPER(x, x.shape[1] - 3), 1),
}


class Helper(torch.nn.Module):
    def forward(self, x, n):
        return x[:, :n] * 2


HELPER = Helper()


@pytest.mark.parametrize("function, ways", RATIOS.values(), ids=RATIOS)
def test_what_python_computes_of_sizes_in_floats_is_followed(ingot, function, ways):
    step = ingot.compile(function, wait=True)
    with torch.no_grad(), counted(ingot) as seen:
        for size in (17, 20, 9, 8, 31, 12, 33, 25, 11, 30):
            x = torch.randn(3, size)
            found, expected = step(x), function(x)
            torch.testing.assert_close(found, expected)
            assert type(found) is type(expected)
    assert seen["captures"] <= ways, (step.report(), step.soundness())


def test_what_is_no_ratio_is_fixed(ingot):
    step = ingot.compile(lambda x: x[:, :int(x.shape[1] * 0.7)], wait=True)
    check(step, lambda x: x[:, :int(x.shape[1] * 0.7)], [(2, n) for n in (10, 11, 10, 20, 30, 10)])


@pytest.mark.parametrize("make", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN], ids=lambda make: make.__name__)
@pytest.mark.parametrize("options", [{"batch_first": True}, {"bidirectional": True}], ids=["batch first", "both ways"])
def test_recurrent_layers_serve_sequences_of_every_length(ingot, make, options):
    layer = make(4, 8, 2, **options).eval()
    step = ingot.compile(layer, wait=True)
    with torch.no_grad(), counted(ingot) as seen:
        for size in ((2, 5), (2, 7), (3, 5), (4, 9), (6, 2)):
            x = torch.randn(*size, 4)
            found, expected = step(x), layer(x)
            torch.testing.assert_close(found, expected)
            assert found[0].stride() == expected[0].stride()
    assert seen["captures"] == 1 and seen["native_calls"] == 4, step.report()


def by_remainder(x):
    return x.relu() * (2 if x.shape[1] % 2 else 2) + 1.3125  # A graph that no other test brings into their store.


def test_ranges_of_one_template_add_up(ingot):
    """Each remainder is a recording of its own of one graph: none of them takes back what another has proved."""
    step = ingot.compile(by_remainder)
    with counted(ingot) as seen:
        for size in [(3, 8), (3, 9)]:
            check(step, by_remainder, [size])
            step.wait()
        check(step, by_remainder, [(5, 10), (5, 11), (2, 30), (2, 31)])
    assert (seen["captures"], seen["compiles"], seen["native_calls"]) == (2, 1, 4)
    assert ranges(step)[0].count(" or ") == 1


def test_a_size_of_one_is_one_more_range_of_the_template(ingot):
    """Its recording knows one symbol less; it is an instance of the template for all sizes of the others."""

    def scales(x):
        return (x * 2).relu().sum(1)

    step = ingot.compile(scales)
    with counted(ingot) as seen:
        for size in [(4, 8), (1, 8)]:
            check(step, scales, [size])
            step.wait()
        check(step, scales, [(1, 9), (1, 30), (7, 9)])
    assert (seen["captures"], seen["compiles"], seen["native_calls"]) == (2, 1, 3)


def test_a_template_takes_the_place_of_what_it_serves_alone(ingot):
    """One of two recordings says nothing of a third whose tensors lie otherwise: that is neither lost nor made a part of it."""

    def takes_root(x):
        return x * int(x.numel() ** 0.5) + x.shape[1]

    step = ingot.compile(takes_root, wait=True)
    with torch.no_grad():
        for seen in range(2):
            before = ingot.stats()["captures"]
            for n, m in [(2, 7), (3, 5), (4, 4), (6, 3), (5, 8)]:
                for x in (torch.randn(n, m), torch.randn(m, n).t()):
                    torch.testing.assert_close(step(x), takes_root(x))
    assert ingot.stats()["captures"] == before


ORDERS = {
    "sorted in place": lambda x: (lambda side: side.sort() or x * side[0] + side[1])([x.shape[0], 4]),
    "removed": lambda x: (lambda items: items.remove(4) or x * items[0])([x.shape[0], 4, 5]),
    "repeated by itself": lambda x: x * len([x.shape[0]] * x.shape[0]),
    "put where it says": lambda x: (lambda n, items: items.insert(n, n) or x * items[4])(x.shape[0], list(range(9))),
    "indices of a slice": lambda x: x * slice(1, -x.shape[0], 2).indices(20)[1],
    "equal slices": lambda x: x * (2 if slice(x.shape[0]) == slice(4) else 5),
    "a slice by name": lambda x: (lambda items: items.__setitem__(slice(0, x.shape[0]), [7]) or x * len(items))(list(range(9))),
    "one object": lambda x: x * (2 if operator.is_(x.shape[0], 3) else 5),
    "not one object": lambda x: x * (2 if operator.is_not(x.shape[0], 3) else 5),
    "counted on": lambda x: x * list(enumerate([7], x.shape[0]))[0][0],
}


@pytest.mark.parametrize("function", ORDERS.values(), ids=ORDERS)
def test_what_containers_ask_of_their_numbers_fixes_them(ingot, function):
    step = ingot.compile(function)
    for _ in range(2):
        for n in (3, 4, 6, 3, 8, 2):
            check(step, function, [(n, 2)])
            step.wait()


CONSTANTS = {
    "addcmul": lambda x: torch.addcmul(x, x, x, value=x.shape[0] - 2),
    "addcdiv": lambda x: torch.addcdiv(x, x, x.abs() + 1, value=x.shape[0] - 2),
    "elu": lambda x: torch.nn.functional.elu(x, x.shape[0] - 2),
    "leaky_relu": lambda x: torch.nn.functional.leaky_relu(x, x.shape[0]),
    "softplus": lambda x: torch.nn.functional.softplus(x, x.shape[0] - 1),
    "hardtanh": lambda x: torch.nn.functional.hardtanh(x, 2 - x.shape[0], x.shape[0] - 1),
    "pow": lambda x: x.abs() ** (x.shape[0] - 2),
    "stack": lambda x: torch.stack([x, x], x.shape[0] % 2),
    "softmax": lambda x: x.softmax(x.shape[0] % 2),
    "sum": lambda x: x.sum(x.shape[0] % 2),
}


@pytest.mark.parametrize("function", CONSTANTS.values(), ids=CONSTANTS)
def test_a_number_of_sizes_is_not_taken_for_an_absent_one(ingot, function):
    """Where a rule of the compiler needs a constant, it must not go on with the default."""
    step = ingot.compile(function)
    for _ in range(2):
        for n in (3, 4, 5, 3, 6):
            check(step, function, [(n, 2)])
            step.wait()


def broken(*_):
    raise AttributeError("a bug")


@pytest.mark.parametrize("function", [lambda x: x[1:, 3:].to(torch.int32), lambda x: x[1:, 3:].clone(), lambda x: -x[1:, 3:].t(),
                                      lambda x: torch.zeros_like(x[1:, 3:]),
                                      lambda x: x[1:, :, None].expand(-1, -1, 2).permute(2, 1, 0) + 1,
                                      lambda x: x.reshape(-1, 2, 3)[1:].transpose(0, 1) + 1, lambda x: x.unfold(0, 4, 1) + 0])
def test_layouts_that_depend_on_sizes_of_one_are_eagers(ingot, function):
    for rows in ((4, 6, 8, 12), (12, 4, 6)):
        step = ingot.compile(function, wait=True)
        for n in rows:
            x = torch.randn(n // 2 if function(torch.zeros(4, 6)).dim() == 2 else n, 6)
            found, wanted = step(x), function(x)
            assert torch.equal(found, wanted)
            assert [s for s, size in zip(found.stride(), found.shape) if size != 1] == [s for s, size in zip(wanted.stride(), wanted.shape) if size != 1]


def rows_before(x):
    y = x[1:].t().contiguous()
    x.zero_()
    return y


def rows_of_half(x):
    y = (x * 1)[: x.shape[0] // 2].t()
    z = y.contiguous(memory_format=torch.contiguous_format)
    z.mul_(2)
    return y + 0, z


@pytest.mark.parametrize("function", [rows_before, rows_of_half, lambda x: torch.nn.functional.avg_pool1d(x, 2).t().contiguous(),
                                      lambda x: x.view(x.shape[0], -1, 2)[:, 1:].transpose(1, 2).contiguous()])
def test_what_was_contiguous_is_copied_where_it_is_not(ingot, function):
    for sizes in ((2, 4), (6, 8), (4, 6)), ((6, 4), (2, 2), (4, 8)):
        step = ingot.compile(function, wait=True)
        with torch.no_grad():
            for size in sizes:
                x = torch.randn(*size)
                given = x.clone(), x.clone()
                found, wanted = step(given[0]), function(given[1])
                torch.testing.assert_close(found, wanted)
                assert torch.equal(*given)


def turns(x):
    y = (x * 1).contiguous(memory_format=torch.channels_last)
    y[:, :, ::2].to(memory_format=torch.channels_last).mul_(2)  # Of y itself, where its part still is channels last.
    return y


@pytest.mark.parametrize("function", [turns, lambda x: torch.nn.functional.avg_pool2d(x[..., ::2, ::2], 2, 1),
                                      lambda x: torch.nn.functional.conv2d(x[:, :, ::2], torch.ones(2, 4, 1, 1)), lambda x: x[:, :, ::2] + 1])
def test_images_are_channels_last_where_eager_takes_them_for_it(ingot, function):
    for sizes in ([(2, 6, 8), (2, 5, 7), (2, 16, 6), (4, 7, 3)], [(2, 5, 7), (2, 6, 8), (4, 7, 3)]):
        step = ingot.compile(function, wait=True)
        with torch.no_grad():
            for batch, height, width in sizes:
                x = torch.randn(batch, 4, height, width).contiguous(memory_format=torch.channels_last)
                found, wanted = step(x), function(x)
                torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
                assert found.stride() == wanted.stride()


@pytest.mark.parametrize("function", [lambda x, n: x.clamp(min=n), lambda x, n: x.masked_fill(x > 1, n),
                                      lambda x, n: torch.full((3,), n, dtype=torch.uint8) + x, lambda x, n: torch.add(x, x, alpha=n)])
def test_numbers_that_do_not_fit_are_refused_as_by_eager(ingot, function):
    step = ingot.compile(function, wait=True)
    x = torch.tensor([1, 2, 3], dtype=torch.uint8)
    for n in (1, 2, 3, 4, 200):
        assert torch.equal(step(x, n), function(x, n))
    with pytest.raises(RuntimeError, match="without overflow"):
        step(x, 300)


@pytest.mark.parametrize("dtype", (torch.float16, torch.uint8, torch.int16))
@pytest.mark.parametrize("function", [
    lambda x, dtype: torch.full((3,), x.shape[0], dtype=dtype), lambda x, dtype: torch.full((3,), -x.shape[0], dtype=dtype),
    lambda x, dtype: torch.zeros(3, dtype=dtype).fill_(x.shape[0]), lambda x, dtype: torch.ones(3, dtype=dtype).clamp(max=x.shape[0]),
    lambda x, dtype: (torch.full((3,), x.shape[0], dtype=dtype), x + 1)[1]])
def test_sizes_that_do_not_fit_are_refused_as_by_eager(ingot, function, dtype):
    step = ingot.compile(function, wait=True, config=ingot.Config(agree="off"))
    for size in (7, 9, 11, 200, 300, 32767, 33000, 65520, 70000):
        x = torch.zeros(size)
        try:
            wanted = function(x, dtype)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error)):
                step(x, dtype)
        else:
            assert torch.equal(step(x, dtype), wanted)
    assert ingot.stats()["native_calls"] > 0


def cube(x):
    k = x.shape[1]
    return torch.zeros(0, k, k, k)


@pytest.mark.parametrize("function", [
    lambda x: cube(x).sum(), lambda x: (cube(x), x + 1)[1], lambda x: cube(x).shape[2], lambda x: x + torch.empty(0, *cube(x).shape[1:]).shape[2],
    lambda x: torch.bmm(x[:, :, None], x[:, None, :]).shape[2]])
def test_elements_that_cannot_be_counted_are_refused_as_by_eager(ingot, function):
    step = ingot.compile(function, wait=True, config=ingot.Config(agree="off"))
    for size in (3, 4, 7, 1 << 10, 1 << 21, 1 << 32, 5):
        x = torch.empty(0, size)
        try:
            wanted = function(x)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error)):
                step(x)
        else:
            found = step(x)
            assert torch.equal(found, wanted) if isinstance(wanted, torch.Tensor) else found == wanted
    assert ingot.stats()["native_calls"] >= 3


def test_only_handlers_of_signals_are_known_as_such(ingot):
    from ingot.trace import interrupts

    class Handler:
        def __call__(self, number, frame):
            pass

        def method(self, number, frame):
            pass

    known = interrupts.codes()
    assert all(code.co_filename != enum.__file__ for code in known)  # Of members that stand for what the system does.
    before = signal.getsignal(signal.SIGUSR1)
    try:
        for handler, code in ((Handler(), Handler.__call__.__code__), (Handler().method, Handler.method.__code__)):
            signal.signal(signal.SIGUSR1, handler)
            assert interrupts.codes() == {*known, code}
    finally:
        signal.signal(signal.SIGUSR1, before)


class Steps(torch.nn.Module):
    """A tensor and a list that are changed together."""

    def __init__(self):
        super().__init__()
        self.register_buffer("done", torch.zeros(8))
        self.names = [0] * 8

    def forward(self, x):
        for i in range(8):
            x = torch.tanh(x @ x)
            self.done[i] += 1
            self.names[i] += 1
        return x


def test_an_interrupted_native_call_leaves_its_state_whole(ingot):
    def handler(number, frame):
        raise KeyboardInterrupt

    model, x = Steps(), torch.randn(400, 400) * 0.01
    step, before = ingot.compile(model, wait=True), signal.signal(signal.SIGUSR1, handler)
    try:
        with torch.no_grad():
            for _ in range(4):
                step(x)
            calls = int(model.done[0])
            main = threading.main_thread().ident

            def send():
                time.sleep(0.002)  # On purpose: in the middle of a call, whichever moment that is.
                signal.pthread_kill(main, signal.SIGUSR1)

            sender = threading.Thread(target=send)
            with pytest.raises(KeyboardInterrupt):
                sender.start()
                while True:
                    step(x)
                    calls += 1
            sender.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert model.names == model.done.int().tolist() and model.names[0] in (calls, calls + 1)


class Seen:
    signals = collections_ = closed = 0


def test_what_interrupts_a_recorded_call_is_no_part_of_it(ingot, monkeypatch):
    def handler(number, frame):
        Seen.signals += 1

    def collected(phase, info):
        Seen.collections_ += 1

    def rows():
        try:
            yield 1
        finally:
            Seen.closed += 1

    def function(x):
        for _ in range(4):
            kept = [[i] for i in range(2000)]
            x = torch.tanh(x) * len(kept)
        if arrives:
            arrives.pop()()
        return x

    arrives = [lambda: signal.raise_signal(signal.SIGUSR1)]
    before = signal.signal(signal.SIGUSR1, handler)
    gc.callbacks.append(collected)
    try:
        abandoned = rows()
        next(abandoned)
        cycle = [abandoned]
        cycle.append(cycle)
        gc.collect()
        Seen.collections_ = 0
        del abandoned, cycle
        step = ingot.compile(function, wait=True)
        with torch.no_grad():
            for _ in range(4):
                step(torch.ones(3))
            collections_, closed = Seen.collections_, Seen.closed
            gc.disable()
            with counted(ingot) as seen:
                for _ in range(3):
                    step(torch.ones(3))
        assert seen["native_calls"] == 3, step.report()
        assert (Seen.signals, Seen.collections_, Seen.closed) == (1, collections_, closed)
    finally:
        gc.enable()
        gc.callbacks.remove(collected)
        signal.signal(signal.SIGUSR1, before)


def test_a_call_that_asks_or_sets_whether_garbage_is_collected(ingot):
    def asks(x):
        return x * (2 if gc.isenabled() else 3)

    def sets(x, on):
        (gc.enable if on else gc.disable)()
        return x * 2

    x = torch.arange(4.0)
    try:
        for function, arguments in ((asks, ()), (sets, (False,)), (sets, (True,))):
            for before in (gc.enable, gc.disable):
                step = ingot.compile(function, wait=True)
                for _ in range(3):
                    before()
                    expected, then = function(x, *arguments), gc.isenabled()
                    before()
                    assert torch.equal(step(x, *arguments), expected), step.report()
                    assert gc.isenabled() == then
    finally:
        gc.enable()


def test_what_handlers_of_signals_raise_is_the_programs(ingot, monkeypatch):
    from ingot.site import engine, recordings

    class TimeIsUp(Exception):
        pass

    class Handler:
        def __call__(self, number, frame):
            raise TimeIsUp

    function = lambda x: x * 2 + 1  # noqa: E731
    step, before = ingot.compile(function, wait=True), signal.getsignal(signal.SIGUSR1)
    for owner, name in ((engine.Engine, "_find_and_install"), (recordings.Recordings, "_finish")):
        with monkeypatch.context() as patch, torch.no_grad():
            patch.setattr(owner, name, lambda *_: signal.raise_signal(signal.SIGUSR1))
            signal.signal(signal.SIGUSR1, Handler() if name == "_finish" else Handler().__call__)
            try:
                with pytest.raises(TimeIsUp):
                    step(torch.ones(3))
            finally:
                signal.signal(signal.SIGUSR1, before)
    with torch.no_grad(), counted(ingot) as seen:
        for n in (3, 4):
            assert torch.equal(step(torch.ones(n)), function(torch.ones(n)))
    assert (seen["captures"], seen["native_calls"]) == (1, 1), step.report()


def test_a_bug_of_ours_behind_a_recording_is_met_once(ingot, monkeypatch):
    from ingot.site import binding

    def fresh(x):  # Nothing is stored of it, so it is recorded.
        return x.relu() * 3 - 2

    monkeypatch.setattr(binding, "Variant", broken)
    step = ingot.compile(fresh)
    with counted(ingot) as seen:
        for _ in range(4):
            check(step, fresh, [(3, 8)])
            step.wait()
    assert seen["captures"] == 1
    assert "a bug" in step.report()


def test_a_bug_of_ours_before_a_call_is_met_a_few_times(ingot, monkeypatch):
    from ingot.trace import keys

    step = ingot.compile(lambda x: x.relu() * 3 - 4)
    monkeypatch.setattr(keys, "entry_key", broken)
    with counted(ingot) as seen:
        check(step, lambda x: x.relu() * 3 - 4, [(3, 8)] * 9)
    assert seen["refused_internal"] == 3
    assert "a bug" in step.report()
