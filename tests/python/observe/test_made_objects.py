# SPDX-License-Identifier: Apache-2.0
"""Which objects a recorded run has made is heard from Python's allocator, which other tools listen to as well."""

import pytest

PROGRAM = '''
import json, threading, tracemalloc, torch, ingot

class Own:
    def __init__(self, v):
        self.v = v

members = frozenset([held := Own(3.0)])

def make():
    def made(x):
        return x * Own(2.0).v
    return made

def led_to(x):
    return x * held.v

def unexplained(x):
    return x * sum(one.v for one in members)

x = torch.ones(3)
said = []

def run(f):
    step = ingot.compile(f)
    said.append([step(x)[0].item() for _ in range(2) if step.wait() or True])
    step.wait()
    return step
'''


def test_objects_of_the_run_are_native_and_others_need_a_path(store):
    found = store.python(PROGRAM + '''
steps = [run(f) for f in (make(), led_to, unexplained)]
print(json.dumps([said, [len(step.variants) for step in steps], steps[2].report()]))
''')
    assert found[:2] == [[[2.0, 2.0], [3.0, 3.0], [3.0, 3.0]], [1, 1, 0]] and "unexplained-object: Own.v" in found[2]


@pytest.mark.parametrize("before, inside, after", [
    ("tracemalloc.start()", "", ""), ("", "tracemalloc.start()", "tracemalloc.stop()"), ("tracemalloc.start()", "tracemalloc.stop()", ""),
    ("tracemalloc.start()", "tracemalloc.stop()", "tracemalloc.start()"), ("", "tracemalloc.start(); tracemalloc.stop()", "")])
def test_a_tool_that_listens_too_comes_and_goes(store, before, inside, after):
    found = store.python(PROGRAM + f'''
{before or "pass"}
def changes(x):
    {inside or "pass"}
    return x * Own(2.0).v
run(changes)
{after or "pass"}
for _ in range(2):
    run(make())
threads = [threading.Thread(target=run, args=(make(),)) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
tracemalloc.stop()
run(led_to)
print(json.dumps(said))
''')
    assert found == [[2.0, 2.0]] * 6 + [[3.0, 3.0]]
