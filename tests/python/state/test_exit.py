# SPDX-License-Identifier: Apache-2.0
"""A process that ends while threads of Ingot are at work."""

import socket

import pytest

JOBS = '''
import json, sys, threading, time, types
from ingot import _native; from ingot.site import background

class Runner:
    """Jobs that run Python for a while."""
    left = 0
    def run(self, job):
        job.begun.set()
        while self.left < 200_000:
            self.left += 1
        job.done.set()
    def end(self, job):
        job.done.set()

def job():
    return types.SimpleNamespace(gears=(), begun=threading.Event(), done=threading.Event())

sys.setswitchinterval(1e-5)
runner = Runner()
first, second, third = job(), job(), job()
background.submit(runner, first)
background.submit(runner, second)
first.begun.wait()
background.end()
background.submit(runner, third)
for one in (first, second, third):
    one.done.wait()
try:
    background.thread(lambda: None, "late")
    late = "started"
except RuntimeError as e:
    late = str(e)
print(json.dumps(dict(left=runner.left, second=second.begun.is_set(), third=third.begun.is_set(), may=_native.enter_background(), late=late)))
'''


def test_the_end_waits_for_what_runs_python_and_lets_nothing_else_begin(store):
    found = store.python(JOBS)
    assert found == {"left": 200_000, "second": False, "third": False, "may": False, "late": "the process is ending"}


@pytest.mark.parametrize("when", ["at once", "later"])
def test_the_end_does_not_wait_for_the_daemon(store, tmp_path, when):
    """One that takes the connection and never answers."""
    silent = socket.socket(socket.AF_UNIX)
    silent.bind(str(tmp_path / "s"))
    silent.listen(1)
    found = store.python(f'''
import contextlib, json, threading, torch, ingot
from ingot import _native
from ingot.site import background
when, waits, plain = {when!r}, threading.Event(), background.waiting
@contextlib.contextmanager
def waiting():
    with plain():
        if threading.current_thread() is not threading.main_thread():
            waits.set()
        yield
background.waiting = waiting
f = ingot.compile(lambda x: x * 2 + 1, config=ingot.Config(connect_ms_max=60_000, first_lookup_ms_max=100))
result = f(torch.ones(3)).tolist()
if when == "later":  # The compile waits for the connection.
    assert waits.wait(60)
print(json.dumps([result, _native.end_background(5.0)]), flush=True)
import os; os._exit(0)
''', INGOT_SOCKET=str(tmp_path / "s"))
    silent.close()
    assert found == [[3.0] * 3, True]


def test_a_thread_that_comes_back_from_the_daemon_stays_where_it_is(store):
    """A compile is under way when the process ends: nothing is installed any more, and nobody waits for it."""
    found = store.python('''
import json, torch, ingot
from ingot.site import background
f = ingot.compile(lambda x: (x * 2 + 1).relu().sum(0))
x = torch.ones(3, 4)
f(x)
background.end()
ended = f.wait(60)
print(json.dumps([ended, f(x).tolist(), ingot.stats()["captures"]]))
''')
    assert found == [True, [9.0] * 4, found[2]] and found[2] >= 1


WATCHED = '''
import json, torch, ingot
log = open("log.txt", "w")
f = ingot.compile(lambda x: x * 2, wait=True)
with torch.no_grad():
    f(torch.ones(2))
    f(torch.ones(2))
log.write("written at the end")
print(json.dumps(ingot.stats()["native_calls"]))
'''


def test_what_is_watched_does_not_keep_a_programs_files_open(store, tmp_path):
    for calls in (1, 2):
        assert store.python(WATCHED, tmp_path) == calls
        assert (tmp_path / "log.txt").read_text() == "written at the end"
