# SPDX-License-Identifier: Apache-2.0
"""What somebody who waits for a compile is told of it."""

# A call is recorded while the daemon's workers stand still. argv: what the daemon is made to expect, in seconds; "": nothing.
PROGRAM = """
import json, logging, os, signal, subprocess, sys
import torch, ingot
sys.path.append(os.environ["SUPPORT"])
from waiting import wait_until
from ingot.site import compiles
expected = os.environ["EXPECTED"]
said = []
class Kept(logging.Handler):
    def emit(self, record): said.append(record.getMessage())
logging.getLogger("ingot").addHandler(Kept()); logging.getLogger("ingot").setLevel("INFO")
if expected:
    plain = compiles.Compiles._ask_how_far
    compiles.Compiles._ask_how_far = lambda self, job: (lambda known: known and {**known, "left_s": float(expected)})(plain(self, job))
def f(x): return torch.relu(x) + 1
x = torch.ones(4)
daemon = ingot.compile(lambda x: x * 2)
with torch.no_grad():
    daemon(x); daemon.wait()
    pid = json.loads(subprocess.run([os.environ["INGOT"], "daemon", "status", "--json"], capture_output=True).stdout)["pid"]
    workers = [int(one) for one in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()]
    for one in workers: os.kill(one, signal.SIGSTOP)
    g = ingot.compile(f)
    g(x)
    wait_until("the daemon knows of the compile", lambda: any(one["state"] for one in ingot.stats().get("under_way", [])))
    listed = ingot.stats()["under_way"]
    ended = g.wait(float(os.environ["WAIT"]))
    for one in workers: os.kill(one, signal.SIGCONT)
    compiles.Compiles._ask_how_far = lambda self, job: {}
    assert g.wait(60)
    g(x)
print(json.dumps({"ended": ended, "listed": listed, "said": said, "after": ingot.stats().get("under_way"), "native": ingot.stats()["native_calls"]}))
"""


def run(store, expected: str, wait: str):
    from conftest import BIN, SUPPORT

    return store.python(PROGRAM, EXPECTED=expected, WAIT=wait, INGOT=str(BIN / "ingot"), SUPPORT=SUPPORT)


def test_who_waits_goes_on_where_the_compile_is_known_to_take_much_longer(store):
    result = run(store, expected="1000", wait="300")
    assert result["ended"] is False and result["native"] >= 1
    assert any("done in about 1000 s" in line for line in result["said"])
    assert any("goes on without its compile" in line for line in result["said"])


def test_who_waits_goes_on_waiting_where_nobody_knows(store):
    result = run(store, expected="", wait="1.5")
    assert result["ended"] is False
    (listed,) = result["listed"]
    assert listed["function"].endswith("f") and listed["state"] == "compiles" and listed["left_s"] is None and listed["holder"] == ""
    assert any("nobody knows until when" in line for line in result["said"])
    assert not any("goes on without" in line for line in result["said"])
    assert result["after"] is None, "nothing is under way any more"
