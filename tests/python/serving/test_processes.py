# SPDX-License-Identifier: Apache-2.0
"""What several processes of one model do to each other; asserted by counters."""

import json
import os
import pathlib
import select
import subprocess
import sys
import textwrap

import pytest
from conftest import BIN, SUPPORT

MODEL = '''
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = torch.nn.Linear(16, 32)
        self.b = torch.nn.Linear(32, 16)
        self.slope = 0.5
    def forward(self, x):
        h = torch.nn.functional.silu(self.a(x)) * self.slope
        return torch.softmax(self.b(h), -1)
'''

RUN = '''
import json, sys, torch
sys.path.insert(0, ".")
import net, ingot
model = net.Net().eval()
step = ingot.compile(model)
x = torch.ones({rows}, 16)
with torch.no_grad():
    first = step(x)
    step.wait()
    second = step(x)
    expected = model(x)
same = bool(torch.allclose(first, expected, atol=1e-6) and torch.allclose(second, expected, atol=1e-6))
print(json.dumps(dict(same=same, why=step.why_miss(), report=step.report(), **ingot.stats())))
'''


def write(folder: pathlib.Path, text: str = MODEL) -> pathlib.Path:
    folder.mkdir(exist_ok=True)
    (folder / "net.py").write_text(text)
    return folder


def counts(result, *names):
    assert result["same"], result["report"]
    return tuple(result[name] for name in names)


def test_a_second_process_neither_captures_nor_compiles(store, tmp_path):
    folder = write(tmp_path / "code")
    first = store.python(RUN.format(rows=4), folder)
    assert counts(first, "captures", "compiles", "entry_hits", "native_calls") == (1, 1, 0, 1), first["report"]
    second = store.python(RUN.format(rows=4), folder)
    assert counts(second, "captures", "compiles", "entry_hits", "native_calls") == (0, 0, 1, 2), second["report"]


def test_four_processes_at_once_compile_once(store, tmp_path):
    folder = write(tmp_path / "code")
    started = [store.start(RUN.format(rows=4), folder) for _ in range(4)]
    results = [store.finish(process) for process in started]
    assert sum(r["compiles"] for r in results) == 1, results
    assert all(r["same"] for r in results)
    assert store.json("stats")["compiles"] == 1


def test_a_range_holds_for_every_process(store, tmp_path):
    folder = write(tmp_path / "code")
    store.python(RUN.format(rows=4), folder)
    for rows in (6, 9, 4):
        other = store.python(RUN.format(rows=rows), folder)
        assert counts(other, "captures", "compiles", "entry_hits", "native_calls") == (0, 0, 1, 2), other["report"]
    outside = store.python(RUN.format(rows=1), folder)
    assert counts(outside, "captures", "compiles", "proven", "native_calls") == (1, 0, 1, 1), outside["report"]


def test_a_proven_size_is_proved_for_every_process(store, tmp_path):
    # Nobody follows a float: each size is proved by a recording of its own.
    folder = write(tmp_path / "code", "import math\n" + MODEL.replace("        return", "        h = h * 2 if math.sqrt(x.shape[0]) > 10 else h\n        return"))
    for rows in (4, 6, 8):
        store.python(RUN.format(rows=rows), folder)
    again = store.python(RUN.format(rows=8), folder)
    assert counts(again, "captures", "compiles", "entry_hits", "native_calls") == (0, 0, 1, 2), again["report"]
    new = store.python(RUN.format(rows=10), folder)
    assert counts(new, "captures", "compiles", "proven", "native_calls") == (1, 0, 1, 1), new["report"]


def test_an_edited_body_misses_and_a_comment_hits(store, tmp_path):
    folder = write(tmp_path / "code")
    store.python(RUN.format(rows=4), folder)
    write(folder, MODEL.replace("        h =", "        # a comment\n        h ="))
    comment = store.python(RUN.format(rows=4), folder)
    assert counts(comment, "captures", "entry_hits") == (0, 1), comment["report"]
    write(folder, MODEL.replace("silu", "gelu"))
    edited = store.python(RUN.format(rows=4), folder)
    assert counts(edited, "captures", "entry_hits") == (1, 0), edited["report"]
    assert "net.Net.forward" in edited["why"], edited["why"]
    # Down to the node: the first lines in which the two graphs differ.
    assert "graph node %1: %1 = aten.silu(" in edited["why"] and "-> %1 = aten.gelu(" in edited["why"], edited["why"]


def test_a_changed_attribute_misses_by_name(store, tmp_path):
    folder = write(tmp_path / "code")
    store.python(RUN.format(rows=4), folder)
    write(folder, MODEL.replace("self.slope = 0.5", "self.slope = 0.25"))
    changed = store.python(RUN.format(rows=4), folder)
    assert counts(changed, "captures", "entry_hits") == (1, 0)
    assert "self.slope changed: 0.5 -> 0.25" in changed["why"], changed["why"]


def test_a_helper_edited_outside_the_model_is_found_at_load(store, tmp_path):
    folder = write(tmp_path / "code", MODEL.replace("import torch\n", "import torch, helper\n").replace(
        "return torch.softmax", "return helper.twice(torch.softmax").replace(", -1)", ", -1))"))
    (folder / "helper.py").write_text("FACTOR = 2\ndef twice(x):\n    return x * FACTOR\n")
    store.python(RUN.format(rows=4), folder)
    hit = store.python(RUN.format(rows=4), folder)
    assert counts(hit, "captures", "entry_hits") == (0, 1), hit["report"]
    (folder / "helper.py").write_text("FACTOR = 3\ndef twice(x):\n    return x * FACTOR\n")
    changed = store.python(RUN.format(rows=4), folder)
    assert counts(changed, "captures", "dependency_misses") == (1, 1)
    assert "FACTOR" in changed["report"] or "FACTOR" in changed["why"], changed["report"]
    (folder / "helper.py").write_text("FACTOR = 3\ndef twice(x):\n    return x * FACTOR + 0\n")
    body = store.python(RUN.format(rows=4), folder)
    assert counts(body, "captures", "dependency_misses") == (1, 1)
    again = store.python(RUN.format(rows=4), folder)
    assert counts(again, "captures", "entry_hits") == (0, 1), again["report"]


def test_without_a_usable_store_programs_run(store, tmp_path):
    folder = write(tmp_path / "code")
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a directory")
    for place in (str(blocked), "/proc/ingot-store"):
        result = store.python(RUN.format(rows=4), folder, INGOT_STORE_DIR=place)
        assert result["same"], result["report"]
        store.env["INGOT_STORE_DIR"], kept = place, store.env["INGOT_STORE_DIR"]
        store.cli("daemon", "stop", check=False)
        store.env["INGOT_STORE_DIR"] = kept


def test_without_a_daemon_programs_run(store, tmp_path):
    folder = write(tmp_path / "code")
    result = store.python(RUN.format(rows=4), folder, INGOT_SOCKET="/dev/null/ingot.sock")
    assert result["same"], result["report"]
    assert result["native_calls"] == 0 and result["daemon_errors"] >= 1
    many = RUN.format(rows=4).replace("    second = ", "    for _ in range(50): step(x); step.wait()\n    second = ")
    result = store.python(many, folder, INGOT_SOCKET="/dev/null/ingot.sock")
    assert result["same"] and result["captures"] <= 3, result["report"]  # One in a while: nothing would come of the others.


def test_a_killed_daemon_is_started_again(store, tmp_path):
    folder = write(tmp_path / "code")
    store.python(RUN.format(rows=4), folder)
    import os
    import signal

    os.kill(store.json("daemon", "status")["pid"], signal.SIGKILL)
    again = store.python(RUN.format(rows=4), folder)
    assert counts(again, "captures", "entry_hits") == (0, 1), again["report"]


def test_disabled_and_required(store, tmp_path):
    folder = write(tmp_path / "code")
    off = store.python(RUN.format(rows=4), folder, INGOT_DISABLE="1")
    assert counts(off, "captures", "native_calls") == (0, 0)
    code = textwrap.dedent('''
        import json, sys, torch
        sys.path.insert(0, ".")
        import net, ingot
        try:
            with torch.no_grad():
                ingot.compile(net.Net().eval())(torch.ones(4, 16))
            print(json.dumps("served"))
        except ingot.NotFound as e:
            print(json.dumps(str(e)))
    ''')
    assert "may not compile" in store.python(code, folder, INGOT_REQUIRE_CACHED="1")
    store.python(RUN.format(rows=4), folder)
    assert store.python(code, folder, INGOT_REQUIRE_CACHED="1") == "served"


def test_no_arguments_are_kept_after_a_recording_or_a_hit(store):
    code = ("import gc, json, os, sys, weakref, torch, ingot\n"
            f"sys.path.append({SUPPORT!r})\n"
            "from waiting import wait_until\n"
            "step, x = ingot.compile(torch.nn.functional.silu, wait=True), torch.ones(4)\n"
            "with torch.no_grad():\n    step(x)\n"
            "left = weakref.ref(x)\n"
            "del x\n"
            # The thread that compiled lets go a moment after the call returns.
            "wait_until('nothing keeps the argument', lambda: (gc.collect(), left())[1] is None)\n"
            "print(json.dumps(ingot.stats()['entry_hits']))\n")
    assert store.python(code) == 0
    store.cli("daemon", "stop")
    assert store.python(code) == 1


# The connection fails after the interpreter has begun to end: the last object to go sees to it, then waits until the thread that connects
# has heard of it, found that no daemon starts, and asks for the GIL.
ENDING = '''
import os, socket, sys, threading
sys.path.append(os.environ["SUPPORT"])
from waiting import wait_until
READS, ASKS_OR_STAYS = ("7", "45", "47"), ("202", "34")  # poll, recvfrom, recvmsg; futex, pause
def does(thread):
    try:
        file = os.open(f"/proc/self/task/{thread}/syscall", os.O_RDONLY)  # Builtins are gone when the last object goes.
    except OSError:
        return "has ended"
    call = os.read(file, 100).decode().split()[0]
    os.close(file)
    return call
def readers():
    return [thread for thread in os.listdir("/proc/self/task") if does(thread) in READS]
path = os.environ["INGOT_SOCKET"]
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen(1)
import ingot
step = ingot.compile(lambda x: x)
peer, _ = listener.accept()
wait_until("a thread waits for what the daemon says", readers)
connects, = readers()
class Last:
    def __del__(self):
        listener.close()
        peer.close()
        wait_until("the thread asks for the GIL", lambda: does(connects) in (*ASKS_OR_STAYS, "has ended"))
        os.write(1, b'"waited"\\n')
sys.modules["__main__"].last = Last()
print("{}")
'''


def test_a_process_that_ends_while_it_connects_ends_well(store, tmp_path):
    assert store.python(ENDING, INGOT_SOCKET=str(tmp_path / "s"), INGOT_DAEMON="/bin/false", SUPPORT=SUPPORT) == "waited"


LAST = '''
import atexit, json, sys, torch
sys.path.insert(0, ".")
import net, ingot
model = net.Net().eval()

@atexit.register
def last():
    step = ingot.compile(model)
    with torch.no_grad():
        print(json.dumps(dict(same=torch.allclose(step(torch.ones(2, 16)), model(torch.ones(2, 16)), atol=1e-6))))
'''


def test_a_first_call_while_python_ends_is_answered(store, tmp_path):
    folder = write(tmp_path / "code")
    assert store.python(LAST, folder)["same"]
    store.python(RUN.format(rows=4), folder)
    assert store.python(LAST, folder)["same"]


REFUSED = '''
import json, os, time, torch, ingot
step = ingot.compile(lambda x: x * time.time())
with torch.no_grad():
    step(torch.ones(2))
step.wait()
print(json.dumps(dict(refused=ingot.stats()["refusals"], store=os.path.exists(os.environ["INGOT_STORE_DIR"]))))
'''


def test_no_daemon_is_started_before_there_is_something_to_compile(store, tmp_path):
    assert store.python(REFUSED) == {"refused": 1, "store": False}


def test_a_daemon_holds_nothing_that_its_starter_had_open(store):
    readable, writable = os.pipe()
    with open(readable, "rb") as pipe:
        try:
            starter = subprocess.run([str(BIN / "ingot"), "daemon", "start"], env=store.env, pass_fds=[writable], timeout=60)
        finally:
            os.close(writable)
        assert starter.returncode == 0
        assert select.select([pipe], [], [], 10)[0], "the pipe is still open somewhere"
        assert pipe.read() == b""
    assert "fresh" in store.cli("daemon", "status")


SPAWNED = '''
import json, sys
sys.path.insert(0, ".")
import torch
import torch.multiprocessing as mp

def worker(rank, answers):
    import ingot, net
    model = net.Net().eval()
    step = ingot.compile(model)
    x = torch.full((3, 16), 1.0 + rank)
    with torch.no_grad():
        first = step(x)
        step.wait()
        same = torch.allclose(first, model(x), atol=1e-6) and torch.allclose(step(x), model(x), atol=1e-6)
        answers.put((bool(same), ingot.stats()["captures"], ingot.stats()["native_calls"]))

if __name__ == "__main__":
    answers = mp.get_context("spawn").SimpleQueue()
    found = []
    for ranks in (1, 2):
        mp.spawn(worker, args=(answers,), nprocs=ranks)
        found.append([answers.get() for _ in range(ranks)])
    print(json.dumps(found))
'''


def test_spawned_processes_start_the_daemon_and_share_what_they_compile(store, tmp_path):
    folder = write(tmp_path / "code")
    (folder / "spawned.py").write_text(SPAWNED)
    done = subprocess.run([sys.executable, "spawned.py"], cwd=folder, env=store.env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[[True, 1, 1]], [[True, 0, 2], [True, 0, 2]]]


LOOKS_AT_PARAMETERS = """
import json, torch, ingot
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    def forward(self, x):
        return {body}
torch.manual_seed(0)
net = Net()
step, x = ingot.compile(net, wait=True), torch.ones(2, 3)
with torch.no_grad():
    right = [torch.equal(step(x), net(x)) for _ in range(3)]
    net.b.weight = net.a.weight  # Now they are one.
    right += [torch.equal(step(x), net(x)) for _ in range(2)]
print(json.dumps([all(right), ingot.stats()["captures"], step.why_miss()]))
"""
SAME_EVERYWHERE = ["self.a(x.to(next(self.parameters()).dtype))", "self.a(x) * sum(p.numel() for p in self.parameters())",
                   "self.a(x) * len({self.a.weight, self.b.weight})", "self.a(x) * {self.a.weight: 1.0, self.b.weight: 2.0}[self.a.weight]",
                   "self.a(x) * len(self.state_dict()) * len(list(self.named_parameters()))"]
OF_THIS_PROCESS = ["self.a(x) * (1 + hash(self.a.weight) % 2)", "self.a(x) * (1 + self.a.weight.__hash__() % 2)",
                   "x @ next(iter({self.a.weight, self.b.weight}))", "self.a(x) * (id(self.a.weight) % 7)"]


@pytest.mark.parametrize("body", SAME_EVERYWHERE + OF_THIS_PROCESS)
def test_what_finds_parameters_by_their_address_is_the_same_in_every_process(store, body):
    """Sets and dicts do; a program that gets the number, or the order that follows from it, depends on the process."""
    found = [store.python(LOOKS_AT_PARAMETERS.format(body=body)) for _ in range(2)]
    assert all(right for right, *_ in found)
    assert body in OF_THIS_PROCESS or found[1][1] == 0, found
