# SPDX-License-Identifier: Apache-2.0
"""Kernels are held against PyTorch's library when somebody asks for it, and every process takes what is faster from then on."""

import pytest

PROGRAM = '''
import json, torch, ingot
from ingot import tuning
KIND = {kind!r}
torch.manual_seed(0)
made = {{
    "linear": (lambda: torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.ReLU()), (48, 64)),
    "convolution": (lambda: torch.nn.Sequential(torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU()), (2, 16, 12, 12)),
    "transposed": (lambda: torch.nn.Sequential(torch.nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1), torch.nn.ReLU()), (2, 16, 12, 12)),
}}[KIND]
net, x = made[0]().eval(), torch.randn(*made[1])
step = ingot.compile(net, wait=True)
def serve():
    with torch.no_grad():
        for _ in range(3):
            got = step(x)
        right = torch.allclose(got, net(x), atol=1e-4, rtol=1e-4)
    variant = step.variants[0]
    return dict(right=right, native=ingot.stats()["native_calls"], aten=variant["aten_steps"], kernels=variant["native_steps"],
                artifact=variant["artifact"])
'''
SERVE = PROGRAM + "print(json.dumps(serve()))"
TUNE = PROGRAM + '''
said, measure = {said!r}, tuning._compare
seen = []
def compare(rivals, sizes):
    seen.append([program.run(sizes[0])[0] for program in rivals])
    return said or measure(rivals, sizes)
tuning._compare = compare
before = serve()
with torch.no_grad():
    found = ingot.tune(step)
    again = ingot.tune(step)
alike = all(torch.allclose(a, b, atol=1e-3, rtol=1e-3) for a, b in seen)
print(json.dumps(dict(before=before, found=[vars(one) for one in found], again=len(again), alike=alike, after=serve(), text=str(step.report()))))
'''
KINDS = ("linear", "convolution", "transposed")


@pytest.fixture
def quiet(store, tmp_path):
    """A store whose daemon improves only what it is told to."""
    (tmp_path / "ingot.toml").write_text('[daemon]\ntuning = "off"\n')
    store.env["INGOT_CONFIG"] = str(tmp_path / "ingot.toml")
    return store


@pytest.mark.parametrize("kind", KINDS)
def test_where_the_library_is_faster_every_process_calls_it(quiet, kind):
    one = quiet.python(TUNE.format(kind=kind, said=(2000, 1000, True)))
    assert one["before"]["right"] and one["before"]["aten"] == 0
    assert len(one["found"]) == 1 and one["found"][0]["chosen"] and one["found"][0]["library_s"] == 1e-6
    assert one["alike"] and one["again"] == 0
    # Here at once, and whoever comes now.
    assert one["after"]["right"] and one["after"]["aten"] == 1 and one["after"]["kernels"] == 1
    assert "1 native + 1 ATen steps" in one["text"]
    now = quiet.python(SERVE.format(kind=kind))
    assert now["right"] and now["native"] > 0 and now["artifact"] == one["after"]["artifact"]
    stats = quiet.json("stats")
    assert stats["libraries_measured"] == stats["libraries_chosen"] == 1
    assert quiet.json("verify", "--recompile")["problems"] == []


def test_where_it_is_not_the_kernel_stays(quiet):
    one = quiet.python(TUNE.format(kind="linear", said=(1000, 2000, False)))
    assert len(one["found"]) == 1 and not one["found"][0]["chosen"] and one["again"] == 0
    assert one["after"]["right"] and one["after"]["aten"] == 0
    assert quiet.python(SERVE.format(kind="linear"))["aten"] == 0
    stats = quiet.json("stats")
    assert stats["libraries_measured"] == 1 and stats["libraries_chosen"] == 0


def test_what_is_measured_is_two_times_of_one_answer(quiet):
    one = quiet.python(TUNE.format(kind="convolution", said=None))
    assert one["alike"] and len(one["found"]) == 1
    assert one["found"][0]["kernel_s"] > 0 and one["found"][0]["library_s"] > 0
    assert one["after"]["right"] and (one["after"]["aten"] == 1) == one["found"][0]["chosen"]


def test_a_template_is_measured_at_the_sizes_that_were_recorded(quiet):
    answer = quiet.python(PROGRAM.format(kind="linear") + '''
sizes = []
tuning._compare = lambda rivals, operands: (sizes.append([inputs[0].shape[0] for inputs in operands]), (2000, 1000, True))[1]
with torch.no_grad():
    for rows in (48, 96):
        for _ in range(2):
            step(torch.randn(rows, 64))
    ingot.tune(step)
    inputs = torch.randn(33, 64)
    right = torch.allclose(step(inputs), net(inputs), atol=1e-4, rtol=1e-4)
print(json.dumps(dict(sizes=sizes, right=right)))
''')
    assert answer == dict(sizes=[[48]], right=True)


def test_only_what_is_compiled_is_tuned(quiet):
    assert quiet.python('''
import json, ingot
try:
    ingot.tune(len)
except ingot.Invalid as e:
    print(json.dumps(str(e)))
''') == "ingot.tune takes what ingot.compile gives, found builtin_function_or_method"
