# SPDX-License-Identifier: Apache-2.0
"""Every way in which programs and libraries reach a backend of ``torch.compile``, by its name, in a process as a user starts it."""

import importlib.metadata
import subprocess
import sys
import tomllib

import pytest
from conftest import ROOT

NET = '''
import json, torch
torch.manual_seed(0)
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(16, 16)
    def forward(self, x):
        return torch.nn.functional.silu(self.a(x)) + x
class Net(torch.nn.Module):
    _repeated_blocks = ["Block"]
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(3))
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.softmax(-1)
net, x = Net().eval(), torch.randn(4, 16)
'''

SAY = '''
import ingot
print(json.dumps(dict(same=same, **ingot.stats())))
'''


def calls(step: str, times: int = 3) -> str:
    """Code that holds what ``step`` gives against eager, call after call; INGOT_WAIT has native code there from the second on."""
    return f'''
with torch.no_grad():
    want = net(x)
    {step}
    same = all([bool(torch.allclose(step(x), want, atol=1e-6)) for _ in range({times})])
'''


def run(store, code: str, **env: str):
    found = store.python(NET + code + SAY, INGOT_WAIT="1", **env)
    assert found["same"], found
    return found


@pytest.mark.parametrize("given", [
    'backend="ingot"',
    'backend="ingot", mode="reduce-overhead"',
    'backend="ingot", mode="max-autotune", dynamic=False',
    'backend="ingot", dynamic=True',
    'backend="ingot", name="the net"',
    'backend="ingot", options={"numerics": "eager", "wait": True}',
    # vLLM's mode DYNAMO_TRACE_ONCE.
    'backend="ingot", fullgraph=True, dynamic=False, options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}',
])
def test_torch_compile_takes_its_name_and_whatever_else_torch_compile_takes(store, given):
    found = run(store, calls(f"step = torch.compile(net, {given})"))
    assert (found["compiles"], found["native_calls"]) == (1, 2)


def test_the_backend_ignores_what_later_versions_of_torch_hand_on(ingot):
    import torch
    from ingot.backend import ingot as backend

    graph = torch.fx.symbolic_trace(lambda x: x + 1)
    piece = backend(graph, [torch.ones(2)], mode="max-autotune", name="the net", recompile_limit=3, of_another_year=object())
    assert torch.equal(piece(torch.ones(2)), torch.full((2,), 2.0))
    assert backend(graph, [], dynamic=False).config.dynamic is False
    assert backend(graph, [], {"dynamic": True}).config.dynamic is True


def test_an_option_that_nobody_knows_is_an_error_that_names_the_others(ingot):
    import torch

    step = torch.compile(lambda x: x + 1, backend="ingot", options={"max_autotune": True})
    with pytest.raises(Exception, match=r"options of backend='ingot': unknown option 'max_autotune'; the options are agree, .*numerics, .*wait"):
        step(torch.ones(2))
    torch._dynamo.reset()


def test_a_module_compiles_itself(store):
    assert run(store, calls('net.compile(backend="ingot"); step = net'))["native_calls"] == 2


# What diffusers' ModelMixin.compile_repeated_blocks does, line by line.
REPEATED = '''
def compile_repeated_blocks(self, *args, **kwargs):
    for submod in self.modules():
        if submod.__class__.__name__ in self._repeated_blocks:
            submod.compile(*args, **kwargs)
'''


def test_blocks_that_repeat_are_compiled_once(store):
    found = run(store, REPEATED + calls('compile_repeated_blocks(net, fullgraph=True, backend="ingot"); step = net'))
    assert found["compiles"] == 1 and found["native_calls"] >= 6, found


def test_diffusers_compiles_its_repeated_blocks(store):
    pytest.importorskip("diffusers", reason="diffusers is not installed; the test above runs what it does")
    code = '''
from diffusers.models.modeling_utils import ModelMixin
net.compile_repeated_blocks = ModelMixin.compile_repeated_blocks.__get__(net)
'''
    assert run(store, code + calls('net.compile_repeated_blocks(backend="ingot"); step = net'))["native_calls"] >= 6


LLAMA = '''
import transformers, json, torch
torch.manual_seed(0)
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, vocab_size=64)).eval()
x = torch.arange(8)[None]
'''


def test_transformers_compile_config_with_its_own_mode(store):
    code = LLAMA + '''
config = transformers.CompileConfig(backend="ingot")
assert config.mode == "reduce-overhead"
with torch.no_grad():
    want = model(x).logits
    step = model.get_compiled_call(config)
    same = all([bool(torch.allclose(step(x).logits, want, atol=1e-5)) for _ in range(3)])
'''
    found = store.python(code + SAY, INGOT_WAIT="1")
    assert found["same"] and found["native_calls"] >= 2, found


def test_transformers_generates_through_its_compile_config(store):
    code = LLAMA + '''
config = transformers.CompileConfig(backend="ingot", fullgraph=False)
config._compile_all_devices = True   # without it transformers compiles on accelerators alone
given = dict(max_new_tokens=12, do_sample=False, cache_implementation="static", pad_token_id=0)
want = model.generate(x, disable_compile=True, **given)
same = all([torch.equal(model.generate(x, compile_config=config, **given), want) for _ in range(2)])
'''
    found = store.python(code + SAY, INGOT_WAIT="1")
    assert found["same"] and found["native_calls"] >= 10, found


WHOLE = calls("step = torch.compile(net)")


def test_a_default_backend_serves_calls_that_name_none(store):
    assert run(store, 'torch.compiler.set_default_backend("ingot")' + WHOLE)["native_calls"] == 2
    assert run(store, "import ingot; ingot.everywhere()" + WHOLE)["native_calls"] == 3
    assert run(store, "import ingot; ingot.everywhere()" + calls("net.compile(); step = net"))["native_calls"] == 3
    assert run(store, "import ingot; ingot.everywhere()" + calls('step = torch.compile(net, backend="eager")'))["native_calls"] == 0


def test_a_program_that_nobody_edits_is_ingots_by_its_environment(store):
    assert run(store, WHOLE, INGOT_EVERYWHERE="1")["native_calls"] == 2
    told = 'same = (torch.compiler.get_default_backend(), "ingot" in __import__("sys").modules) == {}'
    assert run(store, told.format('("ingot", False)'), INGOT_EVERYWHERE="1")
    for off in ("", "0", "off"):
        assert run(store, told.format('("inductor", False)'), INGOT_EVERYWHERE=off)


def test_torch_is_imported_whatever_comes_of_the_environment(store, tmp_path):
    (tmp_path / "old_torch.py").write_text('''
import ingot_everywhere, torch
del torch.compiler.set_default_backend
ingot_everywhere.on_import_of_torch()
''')
    done = subprocess.run([sys.executable, "old_torch.py"], env={**store.env, "INGOT_EVERYWHERE": "1"}, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "INGOT_EVERYWHERE is set and has no effect: a default backend of torch.compile can be set from PyTorch 2.13 on" in done.stderr


def test_a_build_tree_has_the_entry_points_of_a_wheel():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = importlib.metadata.distribution("ingot")
    assert found.version == project["version"]
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    assert {(point.group, point.name): point.value for point in found.entry_points} == {
        (group, name): value for group, names in groups.items() for name, value in names.items()}
