# SPDX-License-Identifier: Apache-2.0
"""What a program changes in its own process after native code serves: never a stale answer, and back to native."""

import abc
import builtins
import contextvars
import dataclasses
import enum
import functools
import os
import threading
import types
import warnings

import numpy
import pytest
import torch

SCALE = 2.0
TABLE = {"shift": 1.0}
FIRST_RUNS, SECOND_RAN = threading.Event(), threading.Event()


def helper(x):
    return x * 3


@dataclasses.dataclass
class Settings:
    power: int = 1
    names: "list[str]" = dataclasses.field(default_factory=lambda: ["a"])


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2

    def label(self):
        return self._value_ == 1


class Slotted:
    __slots__ = ("rate",)

    def __init__(self) -> None:
        self.rate = 1.0


@functools.lru_cache
def cached(key):
    return RATES[key]


def kind():
    return abc.ABCMeta("Kind", (), {"__module__": __name__})


Kind = kind()
RATES = {"a": 1.0}
MARK = contextvars.ContextVar("mark", default=0.5)


class Part(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = 1.0

    def forward(self, x):
        return x * self.gain


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList([Part(), Part()])
        self.weight = torch.nn.Parameter(torch.full((4,), 0.5))
        self.loose = [torch.ones(4), torch.ones(4) * 2]
        self.factors = [1.0, 2.0]
        self.options = {"shift": 0.5, "inner": {"on": False}}
        self.tags = {"a"}
        self.settings = Settings()
        self.space = types.SimpleNamespace(depth=2)
        self.register_parameter("bias", None)
        self.act = torch.relu
        self.slotted, self.level, self.levels = Slotted(), Level.LOW, {Level.LOW, Level.HIGH}

    def read_from_c(self, x):
        """What no dict holds, read by code made in C."""
        if Level.HIGH in self.levels and "a" in self.tags:
            x = x + 1
        if isinstance(self.space, Kind):
            x = x + 2
        x = x * self.slotted.rate + MARK.get() + len(helper.__name__)
        return x - 3 if int(self.level) == 1 and self.level.label() else x

    def scaled(self, x):
        return helper(x) * SCALE + TABLE["shift"]

    def forward(self, x):
        for part, factor, loose in zip(self.parts, self.factors, self.loose):
            x = part(x) * factor + loose
        x = self.act(self.scaled(x) * self.weight + self.options["shift"])
        if self.options["inner"]["on"]:
            x = x - 1
        if "b" in self.tags:
            x = x - 2
        if self.settings.names[-1] == "z":
            x = x * 5
        if self.bias is not None:
            x = x + self.bias
        x = self.read_from_c(x)
        if hasattr(self, "extra"):
            x = x + self.extra
        return torch.nn.functional.relu(x) ** self.settings.power / self.space.depth


def _set_global(name):
    def change(model):
        globals()[name] = {"SCALE": 4.0, "helper": lambda x: x * 7}[name]
    return change


CHANGES = {
    "an attribute of a part": lambda m: setattr(m.parts[1], "gain", 3.0),
    "an item of a list": lambda m: m.factors.__setitem__(0, 9.0),
    "a longer list of parts": lambda m: (m.parts.append(Part()), m.factors.append(5.0), m.loose.append(torch.ones(4))),
    "a tensor in a list": lambda m: m.loose.__setitem__(1, torch.zeros(4)),
    "the elements of a tensor in a list": lambda m: m.loose[0].fill_(8.0),
    "a value in a dict": lambda m: m.options.update(shift=-4.0),
    "a value in an inner dict": lambda m: m.options["inner"].update(on=True),
    "a member of a set": lambda m: (m.tags.remove("a"), m.tags.add("b")),
    "a member of a set of others": lambda m: (m.levels.discard(Level.HIGH), m.levels.add(Level.LOW)),
    "another member where one was": lambda m: (m.tags.discard("a"), m.tags.add("c")),
    "a member of slots": lambda m: setattr(m.slotted, "rate", 2.5),
    "a member of slots, deleted and set": lambda m: (delattr(m.slotted, "rate"), setattr(m.slotted, "rate", 7.5)),
    "the class of a slotted object": lambda m: setattr(m, "slotted", types.SimpleNamespace(rate=8.5)),
    "the name of a function": lambda m: setattr(helper, "__name__", "another helper"),
    "an enum member": lambda m: setattr(m, "level", Level.HIGH),
    "a class registered with an abstract one": lambda m: Kind.register(types.SimpleNamespace),
    "the value of an enum member": lambda m: m.level.__dict__.update(_value_=9),
    "a context variable": lambda m: MARK.set(20.5),
    "a field of a dataclass": lambda m: setattr(m.settings, "power", 2),
    "a list in a dataclass": lambda m: m.settings.names.append("z"),
    "an attribute of a namespace": lambda m: setattr(m.space, "depth", 4),
    "a parameter": lambda m: setattr(m, "weight", torch.nn.Parameter(torch.full((4,), 0.25))),
    "the elements of a parameter": lambda m: m.weight.data.fill_(2.0),
    "a parameter that was None": lambda m: setattr(m, "bias", torch.nn.Parameter(torch.ones(4))),
    "a new attribute": lambda m: setattr(m, "extra", 6.0),
    "a part": lambda m: m.parts.__setitem__(0, torch.nn.Tanh()),
    "a function attribute": lambda m: setattr(m, "act", torch.tanh),
    "forward of the object": lambda m: setattr(m, "forward", lambda x: x * 100),
    "forward of a part": lambda m: setattr(m.parts[0], "forward", lambda x: x * 100),
    "a method of the class": lambda m: setattr(Model, "scaled", lambda self, x: x * 11),
    "forward of the part's class": lambda m: setattr(Part, "forward", lambda self, x: x * 12),
    "a global number": _set_global("SCALE"),
    "a global function": _set_global("helper"),
    "a value in a global dict": lambda m: TABLE.update(shift=13.0),
    "a function of a library": lambda m: setattr(torch.nn.functional, "relu", lambda x: x * 14),
    "a forward hook": lambda m: m.register_forward_hook(lambda module, args, out: out + 15),
    "a forward hook of a part": lambda m: m.parts[1].register_forward_hook(lambda module, args, out: out + 16),
    "a forward pre-hook": lambda m: m.register_forward_pre_hook(lambda module, args: (args[0] + 17,)),
}


@pytest.fixture
def restored():
    """Whatever a change does to shared things is undone."""
    globals()["Kind"] = kind()
    saved = dict(globals())
    table, mark, fields = dict(TABLE), MARK.set(0.5), dict(Level.LOW.__dict__)
    methods = [(Model, "scaled", Model.scaled), (Part, "forward", Part.forward),
               (torch.nn.functional, "relu", torch.nn.functional.relu)]
    yield
    globals().update(saved)
    TABLE.clear()
    TABLE.update(table)
    MARK.reset(mark)
    Level.LOW.__dict__.update(fields)
    helper.__name__ = "helper"
    for owner, name, value in methods:
        setattr(owner, name, value)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen_by_the_next_call(ingot, restored, name):
    model, x = Model().eval(), torch.linspace(-1, 2, 4)
    step = ingot.compile(model, wait=True)
    with torch.no_grad():
        before = model(x)
        for _ in range(3):
            torch.testing.assert_close(step(x), before)
        served = ingot.stats()["native_calls"]
        assert served >= 1
        CHANGES[name](model)
        expected = model(x)
        assert not torch.equal(expected, before), "the change must matter"
        for _ in range(3):
            torch.testing.assert_close(step(x), expected)
        assert ingot.stats()["native_calls"] > served, step.report()


def test_a_closure_variable_is_seen_by_the_next_call(ingot):
    factor, options = 2.0, [1.0]

    def f(x):
        return x * factor + options[0]

    step, x = ingot.compile(f, wait=True), torch.ones(3)
    with torch.no_grad():
        step(x)
        torch.testing.assert_close(step(x), x * 3)
        factor = 5.0
        torch.testing.assert_close(step(x), x * 6)
        options[0] = 10.0
        torch.testing.assert_close(step(x), x * 15)
        torch.testing.assert_close(step(x), x * 15)


ZERO = numpy.float64(0.0)


def test_the_settings_of_numpy_are_seen_by_the_next_call(ingot):
    """They are contexts of its own, which native code alone reads: what errors raise, and how numbers are written."""
    x = torch.ones(4)
    divided = ingot.compile(lambda x: x * min(2.0, float(numpy.float64(1.0) / ZERO)), wait=True)
    written = ingot.compile(lambda x: x * len(repr(ZERO)), wait=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            assert divided(x)[0] == 2 and written(x)[0] == len("np.float64(0.0)")
        served = ingot.stats()["native_calls"]
        assert served >= 4
        with numpy.errstate(divide="raise"), pytest.raises(FloatingPointError):
            divided(x)
        with numpy.printoptions(legacy="1.25"):
            assert written(x)[0] == written(x)[0] == len("0.0")
        assert divided(x)[0] == 2 and written(x)[0] == len("np.float64(0.0)")
        assert ingot.stats()["native_calls"] >= served + 2


class Link:
    def __init__(self, after, number):
        self.after, self.number = after, number


LINKS = None


def added(x):
    link, total = LINKS, 0
    while link is not None:
        total, link = total + link.number, link.after
    return x * total


@pytest.mark.parametrize("count, is_native", ((1000, True), (30_000, False)))
def test_a_long_way_from_object_to_object_ends(ingot, monkeypatch, count, is_native):
    """Each path is a step longer than the one before it."""
    links = None
    for number in range(count):
        links = Link(links, number % 3)
    monkeypatch.setitem(globals(), "LINKS", links)
    compiled, x = ingot.compile(added, wait=True), torch.ones(4)
    with torch.no_grad():
        for _ in range(3):
            assert torch.equal(compiled(x), added(x))
    assert bool(compiled.variants) == is_native
    if not is_native:
        assert "paths" in compiled.why_miss()


def test_the_default_dtype_is_seen_by_the_next_call(ingot):
    def f(x):
        return x + torch.ones(3)

    step, x = ingot.compile(f, wait=True), torch.ones(3)
    try:
        with torch.no_grad():
            step(x)
            assert step(x).dtype == torch.float32
            torch.set_default_dtype(torch.float64)
            assert step(x).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_unchanged_state_is_served_without_asking_again(ingot):
    model, x = Model().eval(), torch.ones(4)
    step = ingot.compile(model, wait=True)
    with torch.no_grad():
        step(x)
        before = ingot.stats()
        for _ in range(5):
            model.space.depth = model.space.depth  # set anew, the same object
            step(x)
    after = ingot.stats()
    assert after["native_calls"] - before["native_calls"] == 5
    assert after["entry_misses"] == before["entry_misses"] and after["captures"] == before["captures"]


def test_what_no_model_reads_may_change_at_every_call(ingot):
    class Server:
        def __init__(self) -> None:
            self.scale, self.requests, self.log = 2.0, 0, []

        def make(self):
            def run(x):
                return x * self.scale

            return ingot.compile(run, wait=True)

    server, x = Server(), torch.ones(3)
    step = server.make()
    with torch.no_grad():
        step(x)
        before = ingot.stats()
        for i in range(4):
            server.requests += 1000
            server.log.append(f"request {i}")
            torch.testing.assert_close(step(x), x * 2)
        assert ingot.stats()["native_calls"] - before["native_calls"] == 4
        assert ingot.stats()["captures"] == before["captures"]
        server.scale = 3.0
        torch.testing.assert_close(step(x), x * 3)


def test_one_tensor_passed_twice(ingot):
    def f(x, y):
        return x * 2 + y

    step, x, y = ingot.compile(f, wait=True), torch.ones(3), torch.arange(3.0)
    with torch.no_grad():
        for a, b in ((x, x), (x, y), (y, y), (y, x), (x, x)):
            for _ in range(2):
                torch.testing.assert_close(step(a, b), f(a, b))
    assert ingot.stats()["native_calls"] >= 5


def test_self_attention_of_one_tensor(ingot):
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    step, x = ingot.compile(attention, wait=True), torch.randn(2, 5, 8)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(step(x, x, x)[0], attention(x, x, x)[0])
    assert ingot.stats()["native_calls"] >= 1


def test_an_argument_that_is_also_a_weight_is_told_apart(ingot):
    class Product(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full((3,), 2.0))

        def forward(self, x):
            return x * self.weight

    model = Product().eval()
    step, other = ingot.compile(model, wait=True), torch.full((3,), 5.0)
    with torch.no_grad():
        for x in (model.weight, other, model.weight, other):
            torch.testing.assert_close(step(x), model(x))


@torch.library.custom_op("ingot_changes::wait", mutates_args=())
def wait_for_the_other(x: torch.Tensor) -> torch.Tensor:
    FIRST_RUNS.set()
    SECOND_RAN.wait(20)
    return x.clone()


def test_two_threads_that_record_at_once_leave_nothing_behind(ingot):
    before = builtins.getattr, builtins.hasattr, type(os.environ)

    def first(x):
        return wait_for_the_other(x) * float(os.environ.get("INGOT_TEST_UNSET", "2"))

    def second(x):
        return x * getattr(torch, "pi")

    steps = [ingot.compile(f, wait=True) for f in (first, second)]
    with torch.no_grad():
        thread = threading.Thread(target=lambda: torch.no_grad()(steps[0])(torch.ones(3)))
        thread.start()
        FIRST_RUNS.wait(20)
        steps[1](torch.ones(3))
        SECOND_RAN.set()
        thread.join(30)
    assert (builtins.getattr, builtins.hasattr, type(os.environ)) == before
    assert all(step.variants for step in steps), [step.report() for step in steps]
    assert "INGOT_TEST_UNSET" in steps[0].soundness() and "INGOT_TEST_UNSET" not in steps[1].soundness()


def test_a_function_mode_of_the_programs_own_is_not_passed_by(ingot):
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    def f(x):
        return torch.relu(x), torch.ones(2)

    step, x = ingot.compile(f, wait=True), torch.ones(3)
    with torch.no_grad():
        step(x)
        step(x)
        assert ingot.stats()["native_calls"] >= 1
        with torch.device("meta"):
            assert step(x)[1].device.type == "meta"
        with Mode():
            step(x)
        assert torch.relu in seen
        served = ingot.stats()["native_calls"]
        assert step(x)[1].device.type == "cpu" and ingot.stats()["native_calls"] == served + 1


def shifted(x, by=1.0):
    return x + by


class Plain(torch.nn.Module):
    def part(self, x):
        return shifted(x)


class Derived(Plain):
    def forward(self, x):
        return self.part(x) * 2


IN_PLACE = {
    "the code of a function": lambda: setattr(shifted, "__code__", (lambda x, by=1.0: x - by).__code__),
    "the defaults of a function": lambda: setattr(shifted, "__defaults__", (5.0,)),
    "a method that hides one of a base": lambda: setattr(Derived, "part", lambda self, x: x * 7),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_change_in_place_is_seen_by_the_next_call(ingot, name):
    code, defaults = shifted.__code__, shifted.__defaults__
    model, x = Derived().eval(), torch.ones(3)
    step = ingot.compile(model, wait=True)
    try:
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(step(x), model(x))
            assert ingot.stats()["native_calls"] >= 1
            IN_PLACE[name]()
            expected = model(x)
            assert not torch.equal(expected, torch.full((3,), 4.0))
            for _ in range(3):
                torch.testing.assert_close(step(x), expected)
    finally:
        shifted.__code__, shifted.__defaults__ = code, defaults
        if "part" in vars(Derived):
            del Derived.part


def test_one_of_several_threads_records(ingot):
    """Calls of a shape that is being recorded run eagerly; they neither wait nor record it again."""
    entered, answered = threading.Event(), threading.Event()

    @torch.library.custom_op("test_changes::meet", mutates_args=())
    def meet(x: torch.Tensor) -> torch.Tensor:
        if not entered.is_set():
            entered.set()
            assert answered.wait(60)
        return x * 2

    meet.register_fake(torch.empty_like)
    step, x, answers = ingot.compile(lambda x: meet(x) + 1, wait=True), torch.ones(3), []

    def call():
        with torch.no_grad():
            answers.append(step(x))

    before = ingot.stats()
    first = threading.Thread(target=call)
    first.start()
    assert entered.wait(60)
    call()
    answered.set()
    first.join()
    assert [answer.tolist() for answer in answers] == [[3, 3, 3]] * 2
    after = ingot.stats()
    assert after["captures"] - before["captures"] == 1
    assert after["pending_calls"] - before.get("pending_calls", 0) == 1
