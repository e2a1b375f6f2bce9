# SPDX-License-Identifier: Apache-2.0
"""Numbers that come out of tensors and go on in Python: ``loss.item()`` that scales, decides, is returned or kept."""

import math
import random

import pytest
import recorded
import torch

WEIGHT = torch.linspace(-1.0, 1.0, 64).sin().reshape(8, 8) * 0.5


def scales(x):
    y = torch.relu(x @ WEIGHT)
    return y * y.sum().item() + 1


def normalises(x):
    size = x.norm().item()
    return x / max(size, 1e-8), size


def stops_early(x):
    for i in range(6):
        x = torch.tanh(x @ WEIGHT)
        if x.norm().item() < 0.8:
            break
    return x, i


def collects(x):
    losses = []
    for _ in range(3):
        x = torch.tanh(x @ WEIGHT)
        losses.append(x.square().mean().item())
    return {"losses": losses, "twice": losses[0] * 2 + 1, "x": x}


def compares_integers(x):
    best = x.sum(0).argmax().item()
    return (x * 2, best) if best == 3 else (x - best, -best)


def takes_roots(x):
    square = float((x * x).sum())
    if math.sqrt(square) > 3.0:
        x = x / math.sqrt(square)
    return torch.clamp_min(x, -square), abs(-square), square / 2, int(square > 1)


def fills(x):
    largest = x.amax().item()
    return x.masked_fill(x > largest / 2, largest), torch.where(x > 0, x, largest)


def quantises(x):
    y = x.bfloat16()
    scale = y.abs().max().item()
    return y / scale, (y * (127 / scale)).round()


def has_no_elements_of_its_kind(x):
    whole = (x * 10).long()
    least = whole.min().item()
    return whole - least, whole * 0.5 + least, x.half() * least


def writes_afterwards(x):
    kept = x.clone()
    before = kept[0, 0].item()
    kept.fill_(7)
    return kept * before, before


def lists(x):
    (a, b), ids = x[:2, 0].tolist(), x.argmax(-1).tolist()
    return x * a + b, [a, b], ids[:2], max(a, b)


def asks(x):
    s = x.sum().item()
    return torch.zeros_like(x) if math.isnan(s) or math.isinf(s) else x / (abs(s) + 1)


def formats(x):
    return x, f"{x.abs().amax().item() > 1e6}"


PROGRAMS = [scales, normalises, stops_early, collects, compares_integers, takes_roots, fills, quantises, has_no_elements_of_its_kind,
            writes_afterwards, lists, asks, formats]
ALWAYS_NATIVE = {"scales", "normalises", "collects", "fills", "quantises", "writes_afterwards", "asks", "formats"}


def same(a, b):
    if isinstance(a, torch.Tensor):
        wide = torch.finfo(torch.bfloat16).eps if a.dtype in (torch.bfloat16, torch.float16) else 1e-5
        return a.dtype == b.dtype and torch.allclose(a.double(), b.double(), rtol=wide, atol=1e-5, equal_nan=True)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, float):
        return type(b) is float and (math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6) or math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and a == b


def counted(ingot, before):
    now = ingot.stats()
    return {name: now[name] - before[name] for name in ("captures", "native_calls", "value_guard_failures", "verified", "verify_failures")}


def inputs(count):
    made = torch.Generator().manual_seed(3)
    return [torch.randn(4, 8, generator=made) * (0.2 + 0.4 * (i % 5)) for i in range(count)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_the_number_of_each_call_is_its_own(ingot, program):
    compiled, before = ingot.compile(program), ingot.stats()
    with torch.no_grad():
        for i, x in enumerate(inputs(24)):
            assert same(program(x), compiled(x))
            if i % 3 == 0:
                compiled.wait(60)
    stats = counted(ingot, before)
    if program.__name__ in ALWAYS_NATIVE:
        assert stats["captures"] == 1 and stats["native_calls"] >= 23 and stats["value_guard_failures"] == 0
    else:  # One variant for each way that the numbers decide.
        assert stats["captures"] <= 6 and stats["native_calls"] >= 12


def test_integers_are_the_objects_that_python_keeps_where_it_asks(ingot):
    def f(x):
        n = x.max().item()
        return x + (1 if n is 7 else 2)  # noqa: F632

    compiled = ingot.compile(f)
    with torch.no_grad():
        for value in [7, 8, 7, 8, 7]:
            x = torch.tensor([value, 1])
            assert compiled(x).equal(f(x))
            compiled.wait(60)


def test_numbers_read_in_inference_mode(ingot):
    def f(x):
        with torch.inference_mode():
            size = x.norm().item()
        return x / size, size

    compiled, before = ingot.compile(f), ingot.stats()
    with torch.no_grad():
        for x in inputs(6):
            assert same(f(x), compiled(x))
            compiled.wait(60)
    assert counted(ingot, before)["native_calls"] >= 5


def test_an_exported_function_gives_numbers(ingot, tmp_path):
    compiled = ingot.compile(collects)
    with torch.no_grad():
        compiled(inputs(1)[0])
        compiled.wait(60)
        compiled.export(tmp_path / "collects.ingot")
        loaded = ingot.load(tmp_path / "collects.ingot")
        for x in inputs(3):
            assert same(collects(x), loaded(x))


class Average(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.average, self.temperature, self.last = 0.0, 1.0, None

    def forward(self, x):
        self.average = 0.9 * self.average + 0.1 * x.square().mean().item()
        self.temperature = max(self.temperature * 0.97, 0.6)
        return torch.softmax(x / self.temperature, -1) * self.average


def test_floats_that_calls_change_are_state(ingot):
    eager, model = Average(), Average()
    compiled, before = ingot.compile(model), ingot.stats()
    with torch.no_grad():
        for i, x in enumerate(inputs(60)):
            assert same(eager(x), compiled(x))
            assert same((eager.average, eager.temperature), (model.average, model.temperature))
            compiled.wait(60)
            if i == 40:  # From outside, too.
                eager.temperature = model.temperature = 2.5
    stats = counted(ingot, before)
    assert stats["captures"] <= 4 and stats["native_calls"] >= 50


def test_division_by_zero_raises_as_it_does_in_python(ingot):
    def f(x):
        return x * (1.0 / x.sum().item())

    compiled = ingot.compile(f)
    with torch.no_grad():
        for x in [torch.ones(3), torch.ones(3) * 2]:
            assert same(f(x), compiled(x))
            compiled.wait(60)
        with pytest.raises(ZeroDivisionError):
            compiled(torch.zeros(3))
        assert same(f(torch.ones(3) * 4), compiled(torch.ones(3) * 4))


def test_integers_too_large_for_a_tensor_are_pythons(ingot):
    def f(x):
        n = x.max().item()
        return n * n * n * n * n

    compiled = ingot.compile(f)
    with torch.no_grad():
        for value in [3, 3, 2**30, 2**40, 2**62, 3]:
            assert compiled(torch.tensor([value])) == value**5
            compiled.wait(60)


def test_verification_holds_numbers_against_eager(ingot, monkeypatch):
    monkeypatch.setenv("INGOT_VERIFY", "sample:1")
    compiled, before = ingot.compile(collects), ingot.stats()
    with torch.no_grad():
        for x in inputs(6):
            assert same(collects(x), compiled(x))
            compiled.wait(60)
    stats = counted(ingot, before)
    assert stats["verify_failures"] == 0 and stats["verified"] >= 3


READS = ["{t}.mean().item()", "float({t}.sum())", "{t}.abs().amax().item()", "{t}[0, 1].item()", "{t}[:1, :1].item()"]
UNARY = ["-{a}", "abs({a})", "float({a})", "max({a}, 0.25)", "min(1.5, {a})", "math.sqrt(abs({a}))", "int({a})", "({a})**2", "round({a}, 1)"]
BINARY = ["{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / (abs({b}) + 1)"]
HANDED_ON = ["[{a}, {b}][1]", "(lambda v: v)({a})", "{{'k': {a}}}['k']", "kept.append({a}) or kept[-1]", "helper({a}, {b})"]
APPLIED = ["{t} * {a}", "{a} * {t}", "{t} + {a}", "{a} - {t}", "{t} - {a}", "{t} / (abs({a}) + 1)", "torch.mul({t}, {a})", "torch.add({t}, {a}, alpha=2)",
           "torch.add({t}, {t}, alpha={a})", "torch.where({t} > {a}, {t}, {a})", "{t}.clamp_min({a})", "{t}.clamp({a}, 9.0)", "torch.full_like({t}, {a})",
           "({t} > {a}).float()", "{t} ** 2 * {a}"]
IN_PLACE = ["{m}.mul_({a})", "{m}.add_({a})", "{m} += {a}", "{m}.fill_({a})", "{m}.masked_fill_({m} > 0, {a})", "{m}[0] = {a}", "{m}[0] *= {a}"]
TESTS = ["math.isnan({a})", "not math.isfinite({a} * 1e308)", "math.isinf({a} * 1e300 * 1e300)", "{a} < {b}", "{a} > {b}", "{a}", "not {a}", "{a} >= {b}", "0 < {a} < 1"]
LOOKED_AT = ["f'{{{a}:.1f}}'", "{a} in (0.5, 2)", "bool({a})", "{a} == {a}", "str(int({a}))"]


class Program:
    """Source of a random function of one tensor, in which numbers go the ways that numbers go."""

    def __init__(self, seed):
        self.pick = random.Random(seed)
        self.tensors, self.numbers, self.count = ["x"], [], 0

    def made(self, names, text, **more):
        """A line that gives a new name to something made of a tensor and two numbers."""
        self.count += 1
        name = f"{'t' if names is self.tensors else 'n'}{self.count}"
        line = f"{name} = {text.format(t=self.pick.choice(self.tensors), a=self.number(), b=self.number(), **more)}"
        names.append(name)
        return line

    def number(self):
        return self.pick.choice(self.numbers) if self.numbers and self.pick.random() < 0.85 else self.pick.choice(["2", "0.5", "-1.25", "3"])

    def statement(self):
        pick, t = self.pick.choice, self.pick.choice(self.tensors)
        kind = pick(["read", "read", "read", "index", "number", "number", "number", "number", "apply", "apply", "place", "branch", "loop", "write", "look"])
        if kind == "read" or not self.numbers:
            lines = [self.made(self.numbers, pick([*READS, "{t}[:2, 1].tolist()[1]", "{t}.argmax(-1).tolist()[2]"]))]
        elif kind == "index":
            lines = [self.made(self.numbers, "{t}.flatten().argmax().item()")]
        elif kind == "number":
            lines = [self.made(self.numbers, pick(pick([UNARY, BINARY, HANDED_ON])))]
        elif kind == "apply":
            lines = [self.made(self.tensors, f"torch.tanh({pick(APPLIED)})")]
        elif kind == "place":
            lines = [self.made(self.tensors, "{t}.clone()")]
            m = self.tensors[-1]
            lines += [pick(IN_PLACE).format(m=m, a=self.number()), f"{m} = torch.tanh({m})"]
        elif kind == "branch":
            test = pick(TESTS).format(a=self.number(), b=self.number())
            lines = [self.made(self.tensors, "{t}")]
            m = self.tensors[-1]
            lines += [f"if {test}:", f"    {m} = {m} + 1", "else:", f"    {m} = {m} - 1"]
        elif kind == "loop":
            lines = [self.made(self.tensors, "{t}")]
            m = self.tensors[-1]
            lines += [f"for _ in range({pick([2, 3, 4])}):", f"    {m} = torch.tanh({m} * 1.1 + {self.number()} * 0.01)",
                      f"    if {m}.norm().item() < 2.0:", "        break"]
        elif kind == "write":
            lines = [f"{t} = {t} + 0", self.made(self.numbers, f"{t}[0, 0].item()"), f"{t}.mul_(0.5)"]
        else:
            lines = [f"kept.append({pick(LOOKED_AT).format(a=self.number())})"]
        return ["    " + line for line in lines]

    def source(self):
        lines = ["import math", "import torch", "def helper(a, b):", "    return a * 0.5 + b if a < b else a", "def f(x):", "    kept = []"]
        for _ in range(self.pick.randint(3, 9)):
            lines += self.statement()
        ends = ", ".join(self.tensors[-2:] + self.numbers[-3:])
        return "\n".join([*lines, f"    return {ends}, kept", ""])


def load(path, name, source):
    path.write_text(source)
    return recorded.load(name, path).f


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_with_numbers(ingot, tmp_path, seed):
    source = Program(seed).source()
    f = load(tmp_path / f"numbers_{seed}.py", f"numbers_{seed}", source)
    compiled = ingot.compile(f)
    with torch.no_grad():
        for i, x in enumerate(inputs(10)):
            expected = f(x.clone())
            assert same(expected, compiled(x.clone())), f"call {i} of\n{source}"
            if i < 6:
                compiled.wait(60)


def drawn_then_decided(x):
    r = torch.rand(())
    return x + r if r.item() > 0.5 else x - r


def sampled(x):
    tokens = []
    for _ in range(3):
        token = torch.multinomial((x + 1).softmax(-1), 1)
        tokens.append(token)
        if (token == 2).all():
            break
        x = x.roll(1, -1) + token
    return torch.cat(tokens, 1)


def drawn_then_raised(x):
    return torch.rand(2) + torch.tensor([4, 5]) // x.long()


@pytest.mark.parametrize("function, inputs", [(drawn_then_decided, [torch.zeros(1)] * 12), (sampled, [torch.zeros(1, 4)] * 12),
                                              (drawn_then_raised, [torch.full((2,), v) for v in (1.0, 2.0, 3.0, 0.0, 2.0, 0.0)])])
def test_numbers_are_drawn_once(ingot, function, inputs):
    """Also where a native run stops at a value that is another, or raises: what answers draws what eager would."""
    step = ingot.compile(function, wait=True)
    with torch.no_grad():
        for seed, x in enumerate(inputs):
            outcomes = []
            for called in (function, step):
                torch.manual_seed(seed)
                try:
                    outcomes.append((called(x).tolist(), torch.rand(()).item()))
                except RuntimeError as e:
                    outcomes.append((str(e)[:20], torch.rand(()).item()))
            assert outcomes[0] == outcomes[1], (seed, step.report())


PROBED = []


@torch.library.custom_op("numbers_test::probe", mutates_args=())
def probe(x: torch.Tensor) -> torch.Tensor:
    PROBED.append(float(x.sum()))
    return x * 2


@probe.register_fake
def _(x):
    return torch.empty_like(x)


def probed(x):
    y = probe(x)
    return y + 1 if y.sum().item() > 1 else y - 1


def test_a_custom_operator_runs_once_before_a_value_that_decides(ingot):
    step = ingot.compile(probed, wait=True)
    with torch.no_grad():
        for value in (0.0, 0.0, 5.0, 0.0, 5.0, 5.0):
            PROBED.clear()
            step(torch.tensor([value]))
            assert PROBED == [value]
    assert "custom-op-decides" in step.report()


def rooted(x):
    return x * math.sqrt(x[0].item())


def signed_zero(x):
    v = x[0].item()
    return f"{v:.1f}", x[1:] * math.copysign(1, v)


def negated(x):
    return float(-x[0].item())


@pytest.mark.parametrize("function, inputs", [
    (rooted, [[1.5, 1.0], [math.nan, 1.0], [-4.0, 1.0], [-3.0, 1.0], [2.0, 1.0]]), (signed_zero, [[0.0, 1.0], [0.0, 1.0], [-0.0, 1.0], [0.0, 1.0]]),
    (negated, [[3], [4], [-2 ** 63], [2 ** 62], [-5]])], ids=lambda value: getattr(value, "__name__", ""))
def test_values_at_the_edges_are_told_apart(ingot, function, inputs):
    step = ingot.compile(function, wait=True)
    with torch.no_grad():
        for values in inputs:
            outcomes = []
            for called in (function, step):
                try:
                    outcomes.append(str(called(torch.tensor(values))))
                except ValueError as e:
                    outcomes.append(repr(e))
            assert outcomes[0] == outcomes[1], (values, step.report())
