# SPDX-License-Identifier: Apache-2.0
"""What a compiled callable and the command line say of one and the same miss, in real processes."""

import textwrap

NET = '''
import os, torch, helper
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.act = torch.nn.SiLU()
    def forward(self, x):
        if os.environ.get("NET_MODE") == "twice":
            x = x * 2
        return helper.scaled(self.act(x))
'''

HELPER = "FACTOR = 3\ndef scaled(x):\n    return x * FACTOR\n"

RUN = textwrap.dedent('''
    import json, sys, torch
    sys.path.insert(0, ".")
    import net, ingot
    step = ingot.compile(net.Net().eval(), wait=True)
    with torch.no_grad():
        step(torch.ones(4, 16, dtype=torch.{dtype}))
    print(json.dumps(dict(miss=step.why_miss(as_dict=True), text=step.why_miss(), soundness=step.soundness(), **ingot.stats())))
''')


def write(folder, net=NET, helper=HELPER):
    folder.mkdir(exist_ok=True)
    (folder / "net.py").write_text(net)
    (folder / "helper.py").write_text(helper)
    return folder


def run(store, folder, dtype="float32", **env):
    return store.python(RUN.format(dtype=dtype), folder, **env)


def test_a_first_call_was_never_stored(store, tmp_path):
    first = run(store, write(tmp_path / "code"))
    assert first["miss"]["reason"] == "never_stored" and first["text"] == "never stored: no entry of function net.Net.forward"
    assert store.json("why-miss", "net.Net.forward")["reason"] == "stored"


def test_another_dtype_is_named_and_so_is_the_node(store, tmp_path):
    folder = write(tmp_path / "code")
    run(store, folder)
    other = run(store, folder, "float64")
    miss = other["miss"]
    assert (miss["reason"], miss["component"]) == ("key_differs", "inputs"), miss
    assert (miss["stored"], miss["asked"]) == ("f32[2]@cpu", "f64[2]@cpu"), miss
    assert miss["item"] == "x" and miss["graph"].startswith("graph inputs: ") and "(%x: f64[s0, s1]) symbols(" in miss["graph"].split(" -> ")[1], miss
    assert "f32[2]@cpu -> f64[2]@cpu" in other["text"] and "graph inputs" in other["text"]
    seen = store.json("why-miss", miss["key"][:10])
    assert seen["nearest"] == miss["nearest"] and seen["graph"]["place"] == "inputs"
    found = store.json("diff", miss["nearest"][:10], miss["key"][:10])
    assert [d["component"] for d in found["differences"]] == ["inputs"] and found["graph"] == seen["graph"]


def test_a_swapped_submodule_is_named(store, tmp_path):
    folder = write(tmp_path / "code")
    run(store, folder)
    miss = run(store, write(folder, NET.replace("nn.SiLU", "nn.GELU")))["miss"]
    assert (miss["component"], miss["item"]) == ("module_state", "self.act"), miss
    assert "SiLU" in miss["stored"] and "GELU" in miss["asked"], miss
    assert miss["graph"].startswith("graph node %0: %0 = aten.silu("), miss


def test_a_missing_cpu_feature_is_named(store, tmp_path):
    folder = write(tmp_path / "code")
    run(store, folder)
    less = RUN.format(dtype="float32").replace("step = ", "from ingot.trace import keys\nhas = keys._cpu()\n"
                                               "keys._cpu = lambda: tuple(name for name in has if name != 'fma')\nstep = ")
    miss = store.python(less, folder)["miss"]
    assert (miss["reason"], miss["why"]) == ("key_differs", "target feature fma missing"), miss
    assert miss["graph"] == "the graphs are equal", miss


def test_a_rejected_record_names_the_dependency_here_and_on_the_command_line(store, tmp_path):
    folder = write(tmp_path / "code")
    run(store, folder)
    changed = run(store, write(folder, helper=HELPER.replace("x * FACTOR", "x * FACTOR + 1")))
    assert changed["miss"]["reason"] == "rejected" and "helper.scaled" in changed["miss"]["why"], changed["miss"]
    seen = store.json("why-miss", "net.Net.forward")
    assert seen["reason"] == "rejected" and "helper.scaled" in seen["why"], seen
    env = run(store, folder, NET_MODE="twice")
    assert env["miss"]["reason"] == "rejected" and "NET_MODE" in env["miss"]["why"], env["miss"]
    assert "NET_MODE" in store.json("inspect", "net.Net.forward")["rejection"]["why"]


def test_an_evicted_entry_and_a_missing_daemon_are_told_apart(store, tmp_path):
    folder = write(tmp_path / "code")
    run(store, folder)
    store.cli("evict", "net.Net.forward")
    evicted = run(store, folder)["miss"]
    assert evicted["reason"] == "evicted" and "by `ingot evict`" in evicted["why"], evicted
    store.cli("daemon", "stop")
    gone = run(store, folder, INGOT_SOCKET="/dev/null/ingot.sock")["miss"]
    assert gone["reason"] == "unreachable", gone


def test_inspect_says_what_soundness_says(store, tmp_path):
    said = run(store, write(tmp_path / "code"))["soundness"].splitlines()
    printed = store.cli("inspect", "net.Net.forward").splitlines()
    record = [line for line in said if "as the entry key has it" not in line and "agreed with eager" not in line]
    assert any(line.startswith("proved: global helper.FACTOR is still 3 (helper.py:") for line in record), record
    assert any(line.startswith("proved: code helper.scaled") for line in record), record
    assert any(line.startswith("proved: environment variable NET_MODE") for line in record), record
    assert [line for line in printed if line.startswith(("proved:", "assumed:"))] == record
    assert any(line.startswith("proved: module_state is as the entry key has it") for line in said)


def test_a_failed_compile_is_told_here_in_the_next_process_and_on_the_command_line(store, tmp_path):
    folder = write(tmp_path / "code", NET.replace("torch.nn.SiLU()", "torch.nn.BatchNorm1d(16, track_running_stats=True)").replace(
        "    def forward", "    def eval(self):\n        return self.train()\n    def forward"))
    first = run(store, folder)["miss"]
    assert first["reason"] == "failed" and "running statistics" in first["why"], first
    again = run(store, folder)["miss"]
    assert again["reason"] == "failed" and "running statistics" in again["why"], again
    seen = store.json("why-miss", "net.Net.forward")
    assert seen["reason"] == "failed" and seen["failure"]["retry_at"] == 0 and "each recording tries again" in seen["why"], seen
    assert store.json("retry", "net.Net.forward")["cleared"] == 1
    assert store.json("list")["entries"] == []
