# SPDX-License-Identifier: Apache-2.0
"""Forks, threads, tracing, re-entrance: who calls, and what goes on around it."""
import gc
import os
import sys
import threading

import torch

K = 2.0


def inputs():
    return (torch.arange(4.0),)


def alike(*args):
    """Whether the function as it is called says what it says eagerly."""
    return torch.equal(step(*args), fn(*args))


def in_a_child(check):
    pid = os.fork()
    if pid == 0:
        try:
            good = check()
        except BaseException:
            good = None
        os._exit(0 if good else 3 if good is None else 4)
    return os.WEXITSTATUS(os.waitpid(pid, 0)[1])


def in_threads(count, work):
    found = [None] * count
    def run(i):
        with torch.no_grad():
            found[i] = work(i)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


# %% fork_with_known_code
def fn(x):
    return x * K
mutations = ["status = in_a_child(lambda: alike(*inputs()))", "status = in_a_child(lambda: alike(*inputs()) and alike(*inputs()))"]

# %% fork_that_records
def fn(x):
    return x * K
mutations = ["status = in_a_child(lambda: alike(torch.ones(7)) and alike(torch.ones(7)) and alike(torch.ones(3, 3)))",
             "status = in_a_child(lambda: alike(torch.ones(9)))"]

# %% fork_that_changes
def fn(x):
    return x * K
def changed():
    global K
    K = 5.0
    return alike(*inputs()) and alike(*inputs())
mutations = ["status = in_a_child(changed)"]

# %% fork_in_the_call
native = None
def fn(x):
    pid = os.fork()
    if pid == 0:
        os._exit(5)
    return x * os.WEXITSTATUS(os.waitpid(pid, 0)[1])

# %% threads_with_known_code
def fn(x):
    return x * K
mutations = ["good = all(in_threads(4, lambda i: all(alike(torch.full((4,), float(i + n))) for n in range(20))))"]

# %% threads_that_record
def fn(x):
    return x * K + x.shape[0]
mutations = ["good = all(in_threads(4, lambda i: all(alike(torch.ones(i % 2 + n)) for n in range(2, 6))))", "K = 3.0",
             "good = all(in_threads(4, lambda i: alike(torch.ones(4))))"]

# %% threads_and_a_changing_dict
table = {"k": 2.0}
def fn(x):
    return x * table["k"]
def work(i):
    if i == 0:
        for n in range(300):
            table[f"more{n}"] = n
            if n % 3 == 0:
                del table[f"more{n}"]
        return True
    return all(alike(torch.full((4,), float(n))) for n in range(30))
mutations = ["good = all(in_threads(3, work))", "table['k'] = 3.0"]

# %% threads_and_a_changing_argument
def fn(x, options):
    return x * options["k"]
options = {"k": 2.0}
def inputs():
    return torch.arange(4.0), options
def work(i):
    if i == 0:
        for n in range(300):
            options[f"more{n % 7}"] = torch.ones(1)
            options.pop(f"more{(n + 3) % 7}", None)
        return True
    for n in range(30):
        step(torch.ones(4), options)
    return True
native = None
mutations = ["good = all(in_threads(3, work)); options.clear(); options['k'] = 2.0", "options['k'] = 3.0"]

# %% threads_that_write
out = []
def fn(x):
    out.append(x * 2)
    return x * K
native = None
mutations = ["in_threads(4, lambda i: [step(torch.ones(4)) for _ in range(5)])", "out.clear()"]

# %% thread_started_in_the_call
native = None
def fn(x):
    found = []
    thread = threading.Thread(target=lambda: found.append(x * K))
    thread.start()
    thread.join()
    return found[0] + 1
mutations = ["K = 3.0"]

# %% pool_in_the_call
from concurrent.futures import ThreadPoolExecutor
native = None
def scaled(x):
    return x * K
def fn(x):
    with ThreadPoolExecutor(2) as own:
        return sum(own.map(scaled, [x, x + 1]))
mutations = ["K = 3.0"]

# %% traced_by_a_debugger
def fn(x):
    return x * K
lines = []
native = None
def trace(frame, event, arg):
    return trace
mutations = ["sys.settrace(trace)", "K = 3.0", "sys.settrace(None)", "K = 4.0"]

# %% recorded_under_a_debugger
native = None
sys.settrace(lambda frame, event, arg: None)
def fn(x):
    return x * K
mutations = ["sys.settrace(None)", "K = 3.0"]

# %% profiled
native = None
def fn(x):
    return x * K
mutations = ["sys.setprofile(lambda frame, event, arg: None)", "K = 3.0", "sys.setprofile(None)", "K = 4.0"]

# %% tracing_in_the_call
native = None
def fn(x):
    before = sys.gettrace()
    sys.settrace(None)
    y = x * K
    sys.settrace(before)
    return y
mutations = ["K = 3.0"]

# %% calls_itself_as_compiled
native = None
def fn(x):
    if x.shape[0] > 2:
        return step(x[:2]).sum() + x * K
    return x * K
mutations = ["K = 3.0"]

# %% called_from_a_hook
native = None
class Odd:
    @property
    def k(self):
        return float(step(torch.ones(1)).sum()) if depth else K
odd, depth = Odd(), 0
def fn(x):
    return x * odd.k if x.shape[0] > 1 else x * K
mutations = ["depth = 1", "depth = 0; K = 3.0"]

# %% collected_in_between
class Box:
    def __init__(self, k): self.k, self.me = k, self
box = Box(2.0)
def fn(x):
    return x * box.k
mutations = ["box = Box(3.0); gc.collect()", "del box; gc.collect(); box = Box(4.0)", "box = None; box = Box(3.0)"]

# %% addresses_used_again
def fn(x):
    return x * sum(ks)
ks = [1.0, 2.0]
mutations = ["ks = [3.0, 4.0]", "del ks; ks = [5.0, 6.0]", "ks = None; gc.collect(); ks = [7.0, 8.0]", "w = ks; ks = list(w); w = None; ks[0] = 0.0"]

# %% called_in_a_generator
def fn(x):
    return x * K
mutations = ["good = [bool(alike(x)) for x in (torch.ones(4) * n for n in range(4))]", "K = 3.0"]

# %% called_while_handling_an_error
def fn(x):
    try:
        raise KeyError("a")
    except KeyError:
        return x * K
native = None
mutations = ["try:\n    1 / 0\nexcept ZeroDivisionError:\n    good = alike(*inputs())", "K = 3.0"]

# %% error_in_a_thread
limit = 10
def fn(x):
    if x.shape[0] > limit:
        raise ValueError("too long")
    return x * K
def caught(n):
    try:
        step(torch.ones(n))
    except ValueError as e:
        return str(e)
    return "fine"
mutations = ["said = in_threads(3, lambda i: caught(i * 6 + 1))", "limit = 3"]
