# SPDX-License-Identifier: Apache-2.0
"""A compiled module still is one: to its users, to PyTorch's machinery and to the module it is part of."""

import abc
import contextlib
import copy
import functools
import gc
import inspect
import pickle
import subprocess
import sys
import weakref

import pytest
import torch
from torch.nn.utils import parametrize
from waiting import wait_until


class Block(torch.nn.Module):
    """A block."""

    rate = 2.0

    def __init__(self, scale=0.5):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.scale = scale
        self.register_buffer("table", torch.arange(8.0))

    def forward(self, x):
        return torch.tanh(self.linear(x)) * self.scale + self.table

    def twice(self, x):
        return self(self(x))

    @classmethod
    def small(cls):
        return cls(0.25)


class Parent(torch.nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block, self.head = block, torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.block(x))


@pytest.fixture
def block():
    torch.manual_seed(0)
    return Block().eval()


@pytest.fixture
def step(ingot, block):
    return ingot.compile(block, wait=True)


def native(ingot, call, *args):
    """(result, how many native calls it took)"""
    before = ingot.stats()["native_calls"]
    with torch.no_grad():
        result = call(*args)
    return result, ingot.stats()["native_calls"] - before


def assert_served(ingot, step, plain, *args):
    """The same answer as eager's, from native code by the third call at the latest."""
    with torch.no_grad():
        expected = plain(*args)
    for _ in range(2):
        torch.testing.assert_close(native(ingot, step, *args)[0], expected)
    result, count = native(ingot, step, *args)
    torch.testing.assert_close(result, expected)
    assert count == 1, step.report()


def test_it_is_an_instance_of_what_it_wraps(ingot, block, step):
    assert isinstance(step, torch.nn.Module) and isinstance(step, Block) and isinstance(step, ingot.Compiled)
    assert isinstance(step, ingot.CompiledModule) and issubclass(type(step), Block)
    assert step.__class__ is Block and step.__doc__ == "A block." and type(step).__name__ == "Block"
    assert not isinstance(step, torch.nn.Linear) and not isinstance(block, ingot.Compiled)
    assert callable(step) and inspect.signature(step.forward) == inspect.signature(block.forward)


def test_attributes_are_the_modules_own(ingot, block, step):
    assert step.linear is block.linear and step.scale == 0.5 and step.table is block.table and step.rate == 2.0
    assert_served(ingot, step, block, torch.randn(3, 8))
    step.scale, step.extra = 4.0, "new"
    assert block.scale == 4.0 and block.extra == "new"
    del step.extra
    assert not hasattr(block, "extra")
    assert_served(ingot, step, block, torch.randn(3, 8))
    step.linear = torch.nn.Linear(8, 8)
    assert block.linear is step.linear and dict(block.named_modules())["linear"] is step.linear
    assert_served(ingot, step, block, torch.randn(3, 8))
    step.bias = torch.nn.Parameter(torch.ones(8))
    assert "bias" in dict(block.named_parameters())
    with pytest.raises(AttributeError, match="'Block' object has no attribute 'missing'"):
        step.missing
    assert {"linear", "scale", "report", "forward"} <= set(dir(step))


def test_state_and_parameters(ingot, block, step):
    assert list(step.state_dict()) == list(block.state_dict())
    assert all(a is b for a, b in zip(step.parameters(), block.parameters()))
    other = Block(scale=0.5)
    assert str(step.load_state_dict(other.state_dict())) == "<All keys matched successfully>"
    assert_served(ingot, step, other.eval(), torch.randn(3, 8))
    assert [name for name, _ in step.named_modules()] == ["", "linear"] and list(step.children()) == [block.linear]


@pytest.mark.parametrize("change", [lambda m: m.to(torch.float64), lambda m: m.half(), lambda m: m.bfloat16(), lambda m: m.double(),
                                    lambda m: m.train(), lambda m: m.train().eval(), lambda m: m.requires_grad_(False),
                                    lambda m: m.cpu(), lambda m: m.to(memory_format=torch.preserve_format),
                                    lambda m: m.apply(lambda part: None)],
                         ids=["to", "half", "bfloat16", "double", "train", "eval", "requires_grad_", "cpu", "format", "apply"])
def test_methods_that_return_the_module_return_the_compiled_one(ingot, block, step, change):
    x = torch.randn(3, 8)
    assert_served(ingot, step, block, x)
    assert change(step) is step
    assert step.training == block.training and block.linear.training == block.training
    plain = change(copy.deepcopy(block))
    assert plain.linear.weight.dtype == block.linear.weight.dtype
    assert_served(ingot, step, plain, x.to(block.linear.weight.dtype))


def test_it_can_be_a_part_of_a_module(ingot, block, step):
    plain = Parent(copy.deepcopy(block)).eval()
    parent = Parent(step).eval()
    parent.head = plain.head
    assert parent.block is step and dict(parent.named_modules())["block"] is step
    assert [name for name, _ in parent.named_modules()] == [name for name, _ in plain.named_modules()]
    assert list(parent.state_dict()) == list(plain.state_dict())
    assert [name for name, _ in parent.named_parameters()] == [name for name, _ in plain.named_parameters()]
    x = torch.randn(3, 8)
    assert_served(ingot, parent, plain, x) if isinstance(parent, ingot.Compiled) else assert_served_part(ingot, parent, plain, x)
    parent.load_state_dict({**plain.state_dict(), "block.linear.bias": torch.ones(8)})
    plain.block.linear.bias.data.fill_(1)
    assert_served_part(ingot, parent, plain, x)
    parent.to(torch.float64), plain.to(torch.float64)
    assert block.linear.weight.dtype == torch.float64
    assert_served_part(ingot, parent, plain, x.double())
    parent.train()
    assert block.training
    assert parent.apply(lambda part: setattr(part, "seen", True)) is parent and block.seen and block.linear.seen


def assert_served_part(ingot, parent, plain, x):
    with torch.no_grad():
        expected = plain(x)
    for _ in range(2):
        torch.testing.assert_close(native(ingot, parent, x)[0], expected)
    result, count = native(ingot, parent, x)
    torch.testing.assert_close(result, expected)
    assert count == 1


def test_a_module_with_a_compiled_part_can_be_compiled(ingot, block, step):
    parent = Parent(step).eval()
    whole = ingot.compile(parent, wait=True)
    x = torch.randn(3, 8)
    assert_served(ingot, whole, Parent.forward.__get__(parent), x)
    block.scale = 3.0
    assert_served(ingot, whole, Parent.forward.__get__(parent), x)
    block.linear.weight.data.mul_(2)
    assert_served(ingot, whole, Parent.forward.__get__(parent), x)


def test_methods_that_call_the_module_are_served(ingot, block, step):
    x = torch.randn(3, 8)
    assert_served(ingot, step, block, x)
    with torch.no_grad():
        expected = block.twice(x)
    result, count = native(ingot, step.twice, x)
    torch.testing.assert_close(result, expected)
    assert count == 2
    assert native(ingot, step.forward, x)[1] == 0  # The plain one, as of a plain module.


def test_generate_of_transformers_is_served(ingot):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(n_embd=32, n_layer=1, n_head=2, vocab_size=50, n_positions=32, bos_token_id=1, eos_token_id=None)
    model = GPT2LMHeadModel(config).eval()
    ids = torch.randint(2, 50, (1, 4))
    expected = model.generate(ids, max_new_tokens=4, do_sample=False, use_cache=False)
    step = ingot.compile(model, wait=True)
    assert step.config is config and isinstance(step, GPT2LMHeadModel)
    before = ingot.stats()
    for _ in range(3):
        assert torch.equal(step.generate(ids, max_new_tokens=4, do_sample=False, use_cache=False), expected)
    after = ingot.stats()
    assert after["native_calls"] - before["native_calls"] >= 4, step.report()


def test_names_of_the_module_win_over_ingots(ingot):
    class Busy(Block):
        def __init__(self):
            super().__init__()
            self.config, self.report = {"mine": 1}, torch.nn.Linear(8, 8)
            self.register_buffer("variants", torch.ones(8))

        def export(self):
            return "mine"

    busy = Busy()
    step = ingot.compile(busy)
    assert step.config == {"mine": 1} and step.report is busy.report and step.variants is busy.variants and step.export() == "mine"
    assert "0 variants" in ingot.compile(Block()).report() and step.wait()


def test_it_pickles_as_the_plain_module(ingot, block, step, tmp_path):
    for dropped in (pickle.loads(pickle.dumps(step)), pickle.loads(pickle.dumps(step, protocol=2))):
        assert type(dropped) is Block and not isinstance(dropped, ingot.Compiled)
        torch.testing.assert_close(dropped.state_dict(), block.state_dict())
    torch.save(Parent(step), tmp_path / "parent.pt")
    loaded = torch.load(tmp_path / "parent.pt", weights_only=False)
    assert type(loaded.block) is Block and list(loaded.state_dict()) == list(Parent(block).state_dict())
    linear = ingot.compile(torch.nn.Linear(2, 2))
    torch.save(linear, tmp_path / "linear.pt")
    code = f"import torch, sys; print(type(torch.load({str(tmp_path / 'linear.pt')!r}, weights_only=False)), 'ingot' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "<class 'torch.nn.modules.linear.Linear'> False\n"


def test_copies_are_compiled_with_weights_of_their_own(ingot, block, step):
    twin = copy.deepcopy(step)
    assert isinstance(twin, ingot.Compiled) and isinstance(twin, Block) and twin.linear is not block.linear
    twin.linear.weight.data.zero_()
    x = torch.randn(3, 8)
    assert_served(ingot, twin, Block.forward.__get__(twin), x)
    assert_served(ingot, step, block, x)
    parent = copy.deepcopy(Parent(step))
    assert isinstance(parent.block, ingot.Compiled) and parent.block.linear is not block.linear
    shallow = copy.copy(step)
    assert isinstance(shallow, ingot.Compiled) and shallow.linear is block.linear and shallow is not step


def test_repr(ingot, block, step):
    assert repr(step) == f"ingot.compile({block!r})"
    assert "(block): ingot.compile(Block(\n" in repr(Parent(step))
    assert repr(ingot.compile(block.twice)).startswith("ingot.compile(<bound method Block.twice of Block(")


def test_hooks_are_the_modules(ingot, block, step):
    x = torch.randn(3, 8)
    assert_served(ingot, step, block, x)
    handle = step.register_forward_hook(lambda module, args, out: out + 100)
    assert_served(ingot, step, block, x)
    handle.remove()
    assert_served(ingot, step, block, x)


class Doubled(torch.nn.Module):
    def forward(self, value):
        return value * 2


def test_a_class_that_changes_is_followed(ingot, step, block):
    linear = torch.nn.Linear(8, 8)
    compiled = ingot.compile(linear, wait=True)
    x = torch.randn(3, 8)
    assert_served(ingot, compiled, linear, x)
    parametrize.register_parametrization(compiled, "weight", Doubled())
    assert type(linear).__name__ == "ParametrizedLinear" and isinstance(compiled, type(linear))
    torch.testing.assert_close(compiled.weight, linear.weight)
    assert_served(ingot, compiled, linear, x)
    parametrize.remove_parametrizations(compiled, "weight")
    assert type(linear) is torch.nn.Linear
    assert_served(ingot, compiled, linear, x)


def test_a_lazy_module_becomes_native_after_its_first_call(ingot):
    class Lazy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.LazyLinear(4)

        def forward(self, x):
            return torch.tanh(self.first(x))

    for lazy in (Lazy(), torch.nn.LazyLinear(5)):
        step = ingot.compile(lazy, wait=True)
        x = torch.randn(3, 8)
        with torch.no_grad():
            first = step(x)
            torch.testing.assert_close(first, lazy(x))
            torch.testing.assert_close(step(x), first)
        assert_served(ingot, step, lazy, x)
    assert isinstance(step, torch.nn.Linear) and step.__class__ is torch.nn.Linear


def test_classes_that_watch_their_subclasses_do_not_see_it(ingot):
    found = []

    class Registered(Block):
        def __init_subclass__(cls, **kwargs):
            found.append(cls)

    class Meta(type):
        def __init__(cls, *args, **kwargs):
            super().__init__(*args)
            found.append(cls)

    class Listed(Block, metaclass=Meta):
        pass

    class Abstract(Block, abc.ABC):
        @abc.abstractmethod
        def name(self): ...

    class Named(Abstract):
        def name(self):
            return "named"

    before = list(found)
    for kind in (Registered, Listed, Named):
        module = kind().eval()
        step = ingot.compile(module, wait=True)
        assert isinstance(step, kind) and found == before
        assert_served(ingot, step, module, torch.randn(3, 8))
    assert step.name() == "named" and isinstance(step, Abstract) and not isinstance(Block(), type(step))


def test_classes_with_slots(ingot):
    class Slotted(Block):
        __slots__ = ("rows",)

        def count(self):
            return self.rows

    module = Slotted().eval()
    module.rows = 3
    step = ingot.compile(module, wait=True)
    assert isinstance(step, torch.nn.Module) and isinstance(step, Slotted)
    assert step.rows == 3 and step.count() == 3 and step.linear is module.linear and step.to(torch.float64) is step
    assert_served(ingot, step, module, torch.randn(3, 8).double())
    assert type(pickle.loads(pickle.dumps(ingot.compile(Block())))) is Block


def test_graph_modules_and_containers(ingot, block):
    x = torch.randn(3, 8)
    for module in (torch.fx.symbolic_trace(block), torch.nn.Sequential(Block(), Block()).eval()):
        step = ingot.compile(module, wait=True)
        assert isinstance(step, type(module))
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(step(x), module(x))
    for script in (torch.jit.script(torch.nn.Linear(8, 8)), torch.jit.script(plus)):
        with pytest.raises(ingot.Unsupported, match="TorchScript"):
            ingot.compile(script)
    assert len(step) == 2 and isinstance(step[0], Block) and [type(part) for part in step] == [Block, Block]


def test_its_class_makes_plain_modules(ingot, step):
    assert type(type(step)(0.125)) is Block and type(step.small()) is Block and step.small().scale == 0.25


def test_compiling_twice_wraps_once(ingot, block, step):
    again = ingot.compile(step, wait=True)
    assert again is not step and again.linear is block.linear and repr(again).count("ingot.compile") == 1


def test_it_does_not_outlive_its_users(ingot):
    def alive():
        block = Block()
        step = ingot.compile(block, wait=True)
        with torch.no_grad():
            step(torch.randn(2, 8))
        step.wait()
        return weakref.ref(step), weakref.ref(block), weakref.ref(type(step))

    found = alive()
    for _ in range(3):
        gc.collect()
    assert [reference() for reference in found] == [None, None, None] or found[1]() is None


@pytest.mark.parametrize("make", [lambda ingot, block: ingot.compile(block.twice), lambda ingot, block: ingot.compile(block)])
def test_what_its_owner_keeps_goes_with_its_owner(ingot, make):
    def alive():
        block = Block().eval()
        block.__dict__["step"] = step = make(ingot, block)
        before = ingot.stats()["native_calls"]
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(step(torch.ones(2, 8)), make(ingot, block)(torch.ones(2, 8)))
                step.wait()
        assert ingot.stats()["native_calls"] > before, step.report()
        return weakref.ref(block)

    def is_gone():
        gc.collect()
        return found() is None

    found = alive()
    wait_until("the thread that compiled, which drops its job after it has said so, has dropped it", is_gone)


# -- functions and methods --------------------------------------------------------------------------


def test_attributes_of_functions(ingot, block):
    @functools.wraps(block.twice)
    def plain(x):
        return x + 1

    step = ingot.compile(plain)
    step.note = "kept"
    assert plain.note == "kept" and step.note == "kept" and step.__name__ == "twice"
    assert inspect.signature(step) == inspect.signature(plain)
    assert isinstance(step, ingot.Compiled) and not isinstance(step, torch.nn.Module)
    assert ingot.compile(block.twice).__self__ is block
    with pytest.raises(TypeError, match="made by ingot.compile"):
        ingot.Compiled(plain)


def plus(x: torch.Tensor):
    return x + 1


def test_functions_pickle_as_functions(ingot, block, monkeypatch):
    step = ingot.compile(plus)
    assert pickle.loads(pickle.dumps(step)) is plus and copy.deepcopy(step) is step and copy.copy(step) is step
    method = pickle.loads(pickle.dumps(ingot.compile(block.twice)))
    assert type(method.__self__) is Block and method.__func__ is Block.twice
    twin = copy.deepcopy(ingot.compile(block.twice))
    assert isinstance(twin, ingot.Compiled) and twin.__self__ is not block
    monkeypatch.setattr(sys.modules[__name__], "plus", step)  # As a decorator leaves it.
    assert pickle.loads(pickle.dumps(step)) is step


def test_every_verb_is_there(ingot, block):
    from ingot import _native

    for step in (ingot.compile(block), ingot.compile(plus)):
        for verb in _native.verbs:
            assert getattr(step, verb) is not None, verb
        for internal in ("target", "site", "name", "_compiles"):
            assert not hasattr(step, internal), internal


@pytest.mark.parametrize("reason", ["a read that is refused", "an argument that is refused", "a result that is refused", "an error"])
def test_callers_are_not_kept_after_a_call(ingot, reason):
    """What a refusal leaves behind holds no frame, whose variables would live as long as the function."""
    held = {}

    def function(x, given=None):
        if reason == "an error":
            raise ValueError(x)
        return (x + float(held["t"]()), id(x)) if reason == "a read that is refused" else {held["o"]: x} if reason == "a result that is refused" else x + 1

    class Local:
        pass

    tensor, held["o"] = torch.ones(()), Local()
    held["t"] = weakref.ref(tensor)
    step = ingot.compile(function, wait=True)

    def call():
        local = Local()
        with contextlib.suppress(ValueError), torch.no_grad():
            step(torch.ones(2), *([weakref.ref(local)] if reason == "an argument that is refused" else []))
        return weakref.ref(local)

    gone = [call() for _ in range(4)]
    assert [ref() for ref in gone] == [None] * 4
