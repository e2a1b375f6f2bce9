# SPDX-License-Identifier: Apache-2.0
"""Artifacts become better after they were served; nobody waits for it, and no answer changes."""

import pytest

# Products of matrices, each of an earlier one: buffers of several sizes that live for different times, which are put
# into more memory than is alive at once until somebody looks for better.
NET = '''
import json, random, time
import torch, ingot
from ingot import _native
WIDTHS, PRODUCTS, REACH = [16, 32, 64, 112, 208], 60, 20
class Net(torch.nn.Module):
    def __init__(self, seed):
        super().__init__()
        draw = random.Random(seed)
        widths, self.froms = [16], []
        for i in range(1, PRODUCTS + 1):
            self.froms.append(i - 1 - draw.randrange(min(i, REACH)))
            widths.append(draw.choice(WIDTHS))
        torch.manual_seed(seed)
        self.weights = torch.nn.ParameterList(torch.randn(widths[f], widths[i + 1]) / widths[f] ** 0.5 for i, f in enumerate(self.froms))
    def forward(self, x):
        made = [x]
        for start, weight in zip(self.froms, self.weights):
            made.append(made[start] @ weight)
        return [one for i, one in enumerate(made) if i not in self.froms]
programs, bind = [], _native.Program.bind
def note(*args):
    programs.append(bind(*args))
    return programs[-1]
_native.Program.bind = note
net = Net({seed}).eval()
step = ingot.compile(net, wait=True)
def serve(rows=24):
    """What a call came to: whether its answer is right, whether it was native, and the arena that it has."""
    x = torch.randn(rows, 16)
    deadline = time.monotonic() + 60
    while not programs and time.monotonic() < deadline:  # a busy machine takes its time
        with torch.no_grad():
            step(x)
    before = ingot.stats()["native_calls"]
    with torch.no_grad():
        right = all(torch.allclose(a, b, atol=1e-4, rtol=1e-4) for a, b in zip(step(x), net(x)))
    arena, least = programs[-1].arena_bytes([rows] * programs[-1].symbol_count) if programs else (0, 0)
    return dict(right=right, native=ingot.stats()["native_calls"] - before, arena=arena, least=least, artifacts=[v["artifact"] for v in step.variants])
'''
SEED = 1
ONCE = NET.replace("{seed}", str(SEED)) + "print(json.dumps(serve()))"
STAYS = NET.replace("{seed}", str(SEED)) + '''
import subprocess
before = serve()
tuned = json.loads(subprocess.run([sys.argv[1], "tune", "--all", "--json"], check=True, stdout=subprocess.PIPE).stdout)
print(json.dumps(dict(before=before, tuned=tuned, after=serve())))
'''


@pytest.fixture
def quiet(store, tmp_path):
    """A store whose daemon improves only what it is told to."""
    (tmp_path / "ingot.toml").write_text('[daemon]\ntuning = "off"\n')
    store.env["INGOT_CONFIG"] = str(tmp_path / "ingot.toml")
    return store


def stays(store):
    from conftest import BIN

    return store.python(STAYS.replace("sys.argv[1]", repr(str(BIN / "ingot"))))


def test_a_smaller_arena_takes_the_place_of_the_first(quiet):
    first = stays(quiet)
    before, tuned, after = first["before"], first["tuned"], first["after"]
    assert before["right"] and before["native"] == 1 and before["arena"] > before["least"] > 0
    assert tuned["improved"] == 1 and tuned["arena_bytes_saved"] > 0
    # Who has the first artifact goes on with it; who comes now gets the better one.
    assert after == before
    now = quiet.python(ONCE)
    assert now["right"] and now["native"] == 1 and now["artifacts"] != before["artifacts"]
    assert before["arena"] - now["arena"] == tuned["arena_bytes_saved"] and now["arena"] >= now["least"] == before["least"]
    stats = quiet.json("stats")
    assert stats["improved"] == 1 and stats["arena_bytes_saved"] == tuned["arena_bytes_saved"] and stats["compiles"] == 1
    [entry] = quiet.json("list")["entries"]
    [variant] = quiet.json("inspect", entry["key"])["variants"]
    assert [variant["artifact"]] == now["artifacts"] and variant["replaced"] == before["artifacts"]
    assert [one["bytes"] for one in variant["provenance"]["arenas"]] == [now["arena"]]
    assert quiet.cli("verify", "--recompile") and quiet.json("verify", "--recompile")["problems"] == []
    # There is no more to find, and no reason to look.
    assert quiet.json("tune", entry["key"])["improved"] == 0


def test_another_size_is_solved_and_improved_when_it_was_used(quiet):
    stays(quiet)
    other = quiet.python(ONCE.replace("serve()", "serve(40)"))
    assert other["right"] and other["native"] == 1 and other["arena"] >= other["least"]
    assert quiet.json("tune", "--all")["variants"] == 1
    assert quiet.python(ONCE)["right"] and quiet.python(ONCE.replace("serve()", "serve(40)"))["right"]


def test_the_command_says_what_it_wants(quiet):
    quiet.python(ONCE)
    for wrong in (["tune"], ["tune", "nobody"], ["tune", "Net", "--all"]):
        assert quiet.cli(*wrong, check=False) == "", wrong
    assert quiet.cli("tune", "forward").startswith("looked at 1 variant, made 1 better; arenas are ")


def test_a_word_that_is_no_setting_is_refused(store, tmp_path):
    (tmp_path / "ingot.toml").write_text('[daemon]\ntuning = "always"\n')
    store.env["INGOT_CONFIG"] = str(tmp_path / "ingot.toml")
    assert store.cli("daemon", "start", check=False) == ""
