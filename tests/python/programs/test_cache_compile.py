# SPDX-License-Identifier: Apache-2.0
"""``cache_compile`` in real processes: each program starts twice, the second must neither capture nor compile.

The behaviours are those that torchair's own tests hold its cache_compile to, as far as they need no NPU.
"""

import pytest
import torch
from zygote import Zygote

HEAD = '''
import dataclasses, typing
import torch

def wrap(ingot, made):
    return ingot.cache_compile(made, config={"wait": True})
'''

PROGRAMS = {
    "a method with lists and dataclasses for arguments": '''
@dataclasses.dataclass
class Meta:
    lengths: torch.Tensor
    scale: int

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
    def prompt(self, x, meta, extra: typing.List[torch.Tensor]):
        return self.linear(x) * meta.scale + meta.lengths + sum(extra)

def make():
    torch.manual_seed(0)
    return Model().prompt, (torch.ones(2, 4), Meta(torch.arange(4.0), 3), [torch.ones(4), torch.ones(1)])
''',
    "a positional parameter given by name": '''
class Model(torch.nn.Module):
    def prompt(self, x, y):
        return x * 2 + y
keywords = {"y": torch.full((4,), 3.0)}

def make():
    return Model().prompt, (torch.ones(2, 4),)
''',
    "a keyword-only parameter": '''
class Model(torch.nn.Module):
    def prompt(self, x, *, y, flag=True):
        return x * 2 + y if flag else x
keywords = {"y": torch.full((4,), 3.0), "flag": True}

def make():
    return Model().prompt, (torch.ones(2, 4),)
''',
    "views in, numbers and views out": '''
class Model(torch.nn.Module):
    def prompt(self, x, k):
        return x + k, k, k * 2 + x.shape[0], x[:, 1:]

def make():
    return Model().prompt, (torch.arange(24.0).reshape(4, 6).t()[::2], 5)
''',
    "a plain function": '''
def work(x, y):
    return torch.softmax(x @ y, -1)

def make():
    return work, (torch.ones(3, 4), torch.ones(4, 2))
''',
    "an import inside the function": '''
class Model(torch.nn.Module):
    def prompt(self, x):
        import math
        from torch.nn import functional as inner
        return inner.silu(x) * math.pi

def make():
    return Model().prompt, (torch.ones(2, 4),)
''',
    "a dataclass of the caller for a result": '''
@dataclasses.dataclass
class Result:
    hidden: torch.Tensor
    size: int

class Model(torch.nn.Module):
    def prompt(self, x):
        return Result(x + 1, x.shape[0])

def make():
    return Model().prompt, (torch.ones(2, 4),)
''',
    "a Hugging Face output for a result": '''
from transformers.modeling_outputs import BaseModelOutputWithPast

class Model(torch.nn.Module):
    def prompt(self, x):
        return BaseModelOutputWithPast(last_hidden_state=x * 2)

def make():
    return Model().prompt, (torch.ones(2, 4),)
''',
    "tensors in a closure": '''
def outer():
    bias = torch.arange(4.0)
    def inner(x):
        return x + bias
    return inner

def make():
    return outer(), (torch.ones(2, 4),)
''',
    "tensors that are no buffers": '''
class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.buffer = torch.ones(4) * 3

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.own = torch.arange(4.0)
        self.part = Part()
    def prompt(self, x):
        return x + self.own * self.part.buffer

def make():
    return Model().prompt, (torch.ones(2, 4),)
''',
    "a tensor of a module in a list": '''
class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.buffer = torch.ones(4) * 3

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [Part(), Part()]
    def prompt(self, x):
        return x + self.layers[0].buffer - self.layers[1].buffer * 2

def make():
    return Model().prompt, (torch.ones(2, 4),)
''',
    "a replaced bound forward and caches three levels deep": '''
class Cache:
    def __init__(self):
        self.layers = [[(torch.ones(2, 4), torch.zeros(2, 4))]]

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = Cache()
    def forward(self, x):
        raise NotImplementedError
    def step(self, x):
        key, value = self.cache.layers[0][0]
        return x * key + value

def make():
    model = Model()
    model.forward = model.step
    return model.forward, (torch.ones(2, 4),)
''',
    "infinities and NaN for constants": '''
INF = float("inf")
class Model(torch.nn.Module):
    def prompt(self, x):
        return x.masked_fill(x > 2, -INF), torch.clamp(x, max=INF), x * float("nan")

def make():
    return Model().prompt, (torch.arange(4.0),)
''',
    "tensor constants made inside": '''
class Model(torch.nn.Module):
    def prompt(self, x):
        return x + torch.tensor([1.0, 2.0, 3.0, 4.0]) * torch.arange(4)

def make():
    return Model().prompt, (torch.ones(2, 4),)
''',
    "complex views": '''
class Model(torch.nn.Module):
    def prompt(self, x, z):
        return torch.view_as_real(z * 2), torch.view_as_complex(x) + 1

def make():
    return Model().prompt, (torch.randn(3, 2, generator=torch.Generator().manual_seed(0)), torch.complex(torch.ones(3), torch.ones(3)))
''',
    "an empty tensor": '''
class Model(torch.nn.Module):
    def prompt(self, x, y):
        return torch.cat([x, y]) * 2, y + 1

def make():
    return Model().prompt, (torch.ones(2, 4), torch.ones(0, 4))
''',
    "an input written in place": '''
class Model(torch.nn.Module):
    def prompt(self, x, cache):
        cache.mul_(0.5).add_(1.0)
        return x + 1

def make():
    return Model().prompt, (torch.ones(2, 4), torch.ones(2, 4))
''',
    "ge_cache, ranks and a directory": '''
import os
def wrap(ingot, made):
    return ingot.cache_compile(made, config={"wait": True}, ge_cache=True, global_rank=3, tp_rank=1, pp_rank=0, backend="ingot",
                               cache_dir=os.environ["INGOT_STORE_DIR"])

class Model(torch.nn.Module):
    def prompt(self, x):
        return torch.relu(x) * 3

def make():
    return Model().prompt, (torch.ones(2, 4),)
''',
}


@pytest.fixture(scope="module")
def zygotes(session_store):
    made = [Zygote(session_store.env, seed) for seed in (4, 5)]
    yield made
    for one in made:
        one.close()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_second_process_hits(zygotes, tmp_path, name):
    module = f"cached{list(PROGRAMS).index(name)}"
    (tmp_path / f"{module}.py").write_text(HEAD.lstrip() + PROGRAMS[name])
    first, second = (zygote.run(tmp_path, module) for zygote in zygotes)
    assert first["right"] and first["captures"] == 1 and first["native"] >= 1, first["report"]
    assert second["right"] and (second["captures"], second["hits"], second["native"]) == (0, 1, 2), (second["why"], second["report"])
    assert first["answer"] == pytest.approx(second["answer"], nan_ok=True)


class Two(torch.nn.Module):
    """One body, entered for the prompt and for each further token."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def _forward(self, x, extra):
        return self.linear(x) + extra

    def prompt(self, x, extra):
        return self._forward(x, extra)

    def decode(self, x, extra):
        return self._forward(x, extra)


def test_prompt_and_decode_have_entries_of_their_own_and_other_batches_stay(ingot):
    model, config = Two(), {"wait": True}
    prompt, decode = ingot.cache_compile(model.prompt, config=config), ingot.cache_compile(model.decode, config=config)
    with torch.no_grad():
        for rows in (2, 3, 4, 2, 3, 4):
            x, one = torch.randn(rows, 7, 4), torch.randn(rows, 1, 4)
            torch.testing.assert_close(prompt(x, 1), model.prompt(x, 1))
            torch.testing.assert_close(decode(one, 2), model.decode(one, 2))
    counts = ingot.stats()
    assert counts["native_calls"] >= 6, prompt.report()
    assert len(prompt.variants) >= 1 and len(decode.variants) >= 1


def test_a_flag_that_flips_has_code_for_both_ways(ingot):
    def choose(x, flag):
        return x + 1 if flag else x - 1

    step, x = ingot.cache_compile(choose, config={"wait": True}), torch.ones(3)
    with torch.no_grad():
        for flag in (True, False, True, False):
            torch.testing.assert_close(step(x, flag), choose(x, flag))
    assert ingot.stats()["captures"] <= 2


def test_other_sizes_and_strides_on_a_hit_are_never_answered_wrongly(ingot):
    step = ingot.cache_compile(lambda x: x * 2 + 1, config={"wait": True}, dynamic=False)
    with torch.no_grad():
        for x in (torch.randn(3, 4), torch.randn(3, 4), torch.randn(4, 3).t(), torch.randn(12, 2), torch.randn(1, 5)):
            torch.testing.assert_close(step(x), x * 2 + 1)


def test_random_numbers_come_from_the_live_generator(ingot):
    step, x = ingot.cache_compile(lambda x: x + torch.rand(3), config={"wait": True}), torch.zeros(3)
    with torch.no_grad():
        step(x)
        torch.manual_seed(7)
        found = step(x)
        torch.manual_seed(7)
        torch.testing.assert_close(found, torch.rand(3))


def test_backward_is_eagers(ingot):
    weight = torch.ones(3, requires_grad=True)
    step = ingot.cache_compile(lambda x: (x * weight).sum(), config={"wait": True})
    step(torch.ones(3)).backward()
    torch.testing.assert_close(weight.grad, torch.ones(3))
    with torch.no_grad():
        assert not step(torch.ones(3)).requires_grad


def test_unknown_words_are_errors(ingot):
    with pytest.raises(TypeError, match="fullgraph"):
        ingot.cache_compile(lambda x: x, fullgraph=True)
    with pytest.raises(ingot.Invalid, match="unknown option 'mode'"):
        ingot.cache_compile(lambda x: x, config={"mode": "max-autotune"})
    with pytest.raises(ingot.Unsupported, match="only None or 'ingot'"):
        ingot.cache_compile(lambda x: x, backend="other")
    with pytest.raises(ingot.Unsupported, match="nothing to decompose"):
        ingot.cache_compile(lambda x: x, custom_decompositions={torch.ops.aten.silu.default: lambda x: x})
