# SPDX-License-Identifier: Apache-2.0
"""``torch.compile(backend="ingot")``: pieces, processes, and torch's own ahead-of-time files; asserted by counters."""

import tomllib

import pytest
from conftest import ROOT

MODEL = '''
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = torch.nn.Linear(16, 32)
        self.b = torch.nn.Linear(32, 16)
        self.offset = torch.full((16,), 0.25)
    def forward(self, x):
        h = torch.nn.functional.silu(self.a(x))
        torch._dynamo.graph_break()
        return torch.softmax(self.b(h) + self.offset, -1)
class Whole(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.a = torch.nn.Linear(16, 32)
    def forward(self, x):
        return torch.nn.functional.silu(self.a(x))
def whole(x, y):
    return torch.nn.functional.silu(x) * y / y.sum(-1, keepdim=True)
'''

START = '''
import functools, json, sys, torch
sys.path.insert(0, ".")
import net, ingot
from ingot.backend import ingot as backend
backend = functools.partial(backend, options=dict(wait=True))
'''

RUN = START + '''
model = net.Net().eval()
step = torch.compile(model, backend=backend)
same = True
with torch.no_grad():
    for rows in {rows}:
        x = torch.randn(rows, 16)
        for _ in range(2):
            same = same and bool(torch.allclose(step(x), model(x), atol=1e-6))
print(json.dumps(dict(same=same, **ingot.stats())))
'''


def write(folder, text=MODEL):
    folder.mkdir(exist_ok=True)
    (folder / "net.py").write_text(text)
    return folder


def counts(result, *names):
    assert result["same"], result
    return tuple(result[name] for name in names)


def test_each_piece_of_a_broken_graph_is_found_by_the_next_process(store, tmp_path):
    folder = write(tmp_path / "code")
    run = RUN.format(rows=[4])
    assert counts(store.python(run, folder), "captures", "compiles", "entry_hits", "native_calls") == (2, 2, 0, 2)
    assert counts(store.python(run, folder), "captures", "compiles", "entry_hits", "native_calls") == (0, 0, 2, 4)
    names = {entry["function"] for entry in store.json("list")["entries"]}
    assert names == {"dynamo.net.forward", "dynamo.net.resume_forward"}


def test_what_shifts_lines_hits_and_what_edits_the_piece_misses(store, tmp_path):
    folder = write(tmp_path / "code")
    run = RUN.format(rows=[4])
    store.python(run, folder)
    write(folder, "# a comment\n\n" + MODEL)
    assert counts(store.python(run, folder), "captures", "entry_hits") == (0, 2)
    write(folder, MODEL.replace("silu", "gelu"))
    assert counts(store.python(run, folder), "captures", "entry_hits") == (1, 1)
    moved = write(tmp_path / "elsewhere")
    assert counts(store.python(run, moved), "captures", "entry_hits") == (0, 2)


def test_equal_pieces_of_other_names_hit_by_graph_key(store, tmp_path):
    folder = write(tmp_path / "code")
    run = RUN.format(rows=[4])
    store.python(run, folder)
    write(folder, MODEL.replace("h = ", "hidden = ").replace("(h)", "(hidden)"))
    assert counts(store.python(run, folder), "captures", "compiles", "graph_hits") == (2, 0, 2)


def test_sizes_of_a_dynamic_graph_share_a_template(store, tmp_path):
    folder = write(tmp_path / "code")
    first = store.python(RUN.format(rows=[4, 6, 8, 10]), folder)
    # Dynamo traces again at the second size. Without the argument that repeats it, that is the piece of the first
    # size, whose template serves it: only the very first call of each piece is eager.
    assert counts(first, "captures", "compiles", "proven", "native_calls") == (2, 2, 0, 14), first
    again = store.python(RUN.format(rows=[4, 6, 8, 10]), folder)
    assert counts(again, "captures", "compiles", "entry_hits", "fallbacks") == (0, 0, 4, 0), again


def test_the_entry_point_names_the_backend(store, tmp_path):
    """As an installed package has it: the metadata comes from pyproject.toml."""
    folder = write(tmp_path / "code")
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["torch_dynamo_backends"]
    info = folder / "ingot-0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ingot\nVersion: 0.0\n")
    (info / "entry_points.txt").write_text("[torch_dynamo_backends]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()))
    run = RUN.format(rows=[4]).replace("backend=backend", 'backend="ingot"')
    assert counts(store.python(run, folder, INGOT_WAIT="1"), "captures", "native_calls") == (2, 2)


SAVE = START + '''
x, y = torch.randn(4, 16), torch.rand(4, 16)
with torch.no_grad():
    step = torch.compile(net.whole, fullgraph=True, backend=backend).aot_compile(((x, y), {}))
    same = bool(torch.allclose(step(x, y), net.whole(x, y)) and torch.allclose(step(x, y), net.whole(x, y)))
step.save_compiled_function("saved")
print(json.dumps(dict(same=same, **ingot.stats())))
'''

LOAD = '''
import json, sys, torch
sys.path.insert(0, ".")
import net, ingot
def refuse(*args, **kwargs): raise RuntimeError("traced again")
torch._dynamo.convert_frame.fullgraph_capture = refuse
with open("saved", "rb") as file:
    step = torch.compiler.load_compiled_function(file)
x, y = torch.randn(4, 16), torch.rand(4, 16)
with torch.no_grad():
    same = bool(torch.allclose(step(x, y), net.whole(x, y)))
print(json.dumps(dict(same=same, **ingot.stats())))
'''


def test_what_aot_compile_saves_runs_natively_in_a_new_process(store, tmp_path):
    folder = write(tmp_path / "code")
    assert counts(store.python(SAVE, folder), "captures", "compiles", "native_calls") == (1, 1, 1)
    assert counts(store.python(LOAD, folder), "captures", "compiles", "entry_hits", "native_calls") == (0, 0, 1, 1)
    # The file holds the graph, not the code: another store begins anew, with right answers.
    assert counts(store.python(LOAD, folder, INGOT_DISABLE="1"), "captures", "native_calls") == (0, 0)


MODULE = START + '''
from torch._dynamo.aot_compile import ModelInput
model, x = net.Whole().eval(), torch.randn(4, 16)
step = torch.compile(model, fullgraph=True, backend=backend)
with torch.no_grad():
    {way}
    same = bool(torch.allclose(step(x), model(x)) and torch.allclose(step(x), model(x)))
print(json.dumps(dict(same=same, **ingot.stats())))
'''


def test_weights_of_a_saved_module_are_those_of_the_loading_process(store, tmp_path):
    folder = write(tmp_path / "code")
    save = MODULE.format(way='step._aot_compile([ModelInput((x,), {}, [])]); step._save_aot_compiled_module("saved")')
    load = MODULE.format(way='step._load_aot_compiled_module(open("saved", "rb").read())')
    assert counts(store.python(save, folder), "captures", "compiles", "native_calls") == (1, 1, 1)
    write(folder, MODEL.replace("manual_seed(1)", "manual_seed(2)"))
    assert counts(store.python(load, folder), "captures", "compiles", "entry_hits", "native_calls") == (0, 0, 1, 2)


def test_damaged_pieces_are_refused(ingot):
    import torch
    from ingot.trace.compiled_piece import CompiledPiece
    from ingot.backend import ingot as backend

    saved = []

    def keep(module, inputs):
        piece = backend(module, inputs, {"wait": True})
        saved.append(type(piece).serialize_compile_artifacts(piece))
        return piece

    with torch.no_grad():
        torch.compile(lambda x: x.relu() * 2, backend=keep)(torch.ones(3))
    whole = saved[0]
    again = CompiledPiece.deserialize_compile_artifacts(whole)
    with torch.no_grad():
        assert torch.equal(again(torch.ones(3))[0], torch.full((3,), 2.0))
    for size in [*range(0, 200), len(whole) // 2, len(whole) - 1]:
        with pytest.raises(ingot.Corrupt):
            CompiledPiece.deserialize_compile_artifacts(whole[:size])
    for position in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        with pytest.raises((ingot.Corrupt, ingot.Incompatible)):
            CompiledPiece.deserialize_compile_artifacts(bytes(damaged))


LATE = '''
import builtins, json, sys, torch, ingot
plain = getattr
def late(x):
    import kept                  # Keeps what it finds when it is loaded.
    import torch._dynamo         # Knows builtins by identity.
    return x * 2 + len(kept.FOUND)
def later(x, y):
    return torch.nn.functional.silu(x) * y
loaded = "torch._dynamo" in sys.modules
with torch.no_grad():
    first = ingot.compile(late, wait=True)
    right = [torch.equal(first(x), x * 2 + 2) for x in (torch.randn(4), torch.randn(4))]
    from ingot.backend import ingot as backend
    through = torch.compile(later, backend=backend, options={"wait": True})
    before = ingot.stats()["native_calls"]
    for _ in range(3):
        through(torch.randn(4, 16), torch.randn(4, 16))
import kept
print(json.dumps(dict(loaded=loaded, right=right, own=kept.FOUND == (plain, builtins.hasattr) and builtins.getattr is plain,
                      native=ingot.stats()["native_calls"] - before)))
'''


def test_modules_loaded_by_a_first_call_find_pythons_own_builtins(store, tmp_path):
    (tmp_path / "kept.py").write_text("FOUND = (getattr, hasattr)\n")
    found = store.python(LATE, tmp_path)
    assert found == {"loaded": False, "right": [True, True], "own": True, "native": 2}, found
