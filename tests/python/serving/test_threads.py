# SPDX-License-Identifier: Apache-2.0
"""Threads of calls: how many there are, that they change no result, and that processes and forks do not mind them."""

import os
import threading

import pytest
import torch
from waiting import wait_until

WIDE = 192


class Mixed(torch.nn.Module):
    """Products, sums, a softmax, a convolution and a choice of the largest, each large enough for several threads."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = torch.nn.Linear(WIDE, 4 * WIDE), torch.nn.Linear(4 * WIDE, WIDE)
        self.norm, self.conv = torch.nn.LayerNorm(WIDE), torch.nn.Conv2d(4, 8, 3, padding=1)

    def forward(self, x, picture):
        y = self.norm(x + self.down(torch.nn.functional.gelu(self.up(x))))
        scores = torch.softmax(y @ y.transpose(-1, -2) / WIDE ** 0.5, -1) @ y
        return scores, y.sum(), torch.topk(x, 2, dim=-1), torch.relu(self.conv(picture)).mean((2, 3)), x.sort(-1)[0]


def example():
    torch.manual_seed(1)
    return torch.randn(3, 65, WIDE), torch.randn(2, 4, 40, 40)


def flat(answers):
    return [tensor for answer in answers for tensor in (answer if isinstance(answer, tuple) else [answer])]


def same(a, b):
    """By bytes: an operator of PyTorch's may wait for ever in a child of fork, for threads that only its parent has."""
    return all(x.numpy().tobytes() == y.numpy().tobytes() for x, y in zip(flat(a), flat(b), strict=True))


@torch.no_grad()
def test_any_number_of_threads_gives_the_same_bits(ingot):
    model, args = Mixed().eval(), example()
    answers = []
    for threads in (None, *range(1, 10), 16, 33):
        step = ingot.compile(model, wait=True, on_unsupported="error", config=ingot.Config(threads=threads))
        step(*args)
        answers.append(step(*args))
        assert step.variants[0]["native_steps"] > 3
    for other in answers[1:]:
        # What ATen sums by itself (a mean of a convolution may be) is promised to rounding, and one thread is another order.
        assert same(answers[0], other)
    for ours, eager in zip(flat(answers[0]), flat(model(*args)), strict=True):
        torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("threads", (0, -1, 257, 1.5, "2", True))
def test_a_number_of_threads_that_is_none_is_named(ingot, threads):
    with pytest.raises(ingot.Invalid, match=r"threads=.*: expected a number from 1 to 256, or None"):
        ingot.Config(threads=threads)


def test_operators_of_others_get_no_more_threads_than_the_call_has(ingot):
    @torch.library.custom_op("threads_of_a_call::count", mutates_args=())
    def count(x: torch.Tensor) -> torch.Tensor:
        return torch.full((), float(torch.get_num_threads()))

    count.register_fake(lambda x: x.new_empty(()))
    before = torch.get_num_threads()

    def f(x):
        return torch.ops.threads_of_a_call.count(x) + 0 * (x * 2).sum()

    for threads in (1, 3):
        step = ingot.compile(f, wait=True, on_unsupported="error", config=ingot.Config(threads=threads, agree="off"))
        step(torch.ones(4))
        assert step(torch.ones(4)) == min(threads, before)
        assert torch.get_num_threads() == before
        assert ingot.compile(f, wait=True)(torch.ones(4)) <= before


@torch.no_grad()
def test_many_threads_call_at_once(ingot):
    model, args = Mixed().eval(), example()
    steps = [ingot.compile(model, wait=True, on_unsupported="error", config=ingot.Config(threads=threads)) for threads in (None, 2, 5)]
    for step in steps:
        step(*args)
    expected, wrong = steps[0](*args), []

    def call(step):
        with torch.no_grad():
            for _ in range(20):
                if not same(step(*args), expected):
                    wrong.append(step)

    callers = [threading.Thread(target=call, args=(steps[i % 3],)) for i in range(9)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


@torch.no_grad()
def test_a_child_of_fork_has_threads_of_its_own(ingot):
    model, args = Mixed().eval(), example()
    step = ingot.compile(model, wait=True, on_unsupported="error", config=ingot.Config(threads=3))
    step(*args)
    expected = step(*args)
    stop = threading.Event()

    def call():
        with torch.no_grad():
            while not stop.is_set():
                step(*args)

    # Forks hit the pool in the middle of calls of other threads.
    caller = threading.Thread(target=call)
    caller.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                right = same(step(*args), expected) and same(step(*args), expected)
                grandchild = os.fork()
                if grandchild == 0:
                    os._exit(0 if same(step(*args), expected) else 1)
                os._exit(0 if right and os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) == 0 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        caller.join()
    assert same(step(*args), expected)


SERVE = '''
import json, sys, time
import torch, ingot
step = ingot.compile(torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)).eval(), wait=True)
x = torch.randn(64, 256)
with torch.no_grad():
    step(x), step(x)
    print("1", flush=True)
    while True:
        step(x)
'''


def shares(store, wanted):
    """What the daemon says of who calls, once as many as `wanted` run."""
    found = []

    def there():
        found[:] = [client for client in store.json("top", "--once")["load"]["clients"] if client["running"] > 0.2]
        return len(found) == wanted

    wait_until(f"{wanted} processes run calls", there)
    return found


@pytest.fixture
def serving(store):
    """Starts processes that call one model without end; they end with the test."""
    started = []

    def start():
        started.append(store.start(SERVE))
        started[-1].stdout.readline()
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_processes_share_the_machine_and_are_forgotten_with_their_connection(store, serving):
    first = serving()
    (alone,) = shares(store, 1)
    second = serving()
    both = shares(store, 2)
    assert {client["pid"] for client in both} == {first.pid, second.pid}
    assert all(client["share"] <= max(1, alone["share"]) for client in both), (alone, both)
    assert all(client["threads"] >= client["running"] for client in both), both
    first.kill()
    first.wait()
    (left,) = shares(store, 1)
    assert left["pid"] == second.pid
    second.kill()
    second.wait()
    assert shares(store, 0) == []


# Its children connect, look up, open, call and share the machine, each by itself; they are killed at any instant of that.
KILLED = '''
import json, os, random, signal, sys, time
import torch, ingot
torch.set_num_threads(1)  # A pool of OpenMP's would be missing in each child.
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)).eval()
for p in model.parameters():
    p.requires_grad_(False).copy_(torch.arange(p.numel()).remainder(13).reshape(p.shape) / 13 - 0.5)
x = torch.arange(64 * 256).remainder(7).reshape(64, 256) / 7

def serve(out):
    torch.set_num_threads(2)
    step = ingot.compile(model, wait=True, on_unsupported="error")
    os.set_blocking(out, False)
    while True:
        answer = step(x).numpy().tobytes()[:64]
        try:
            os.write(out, answer)
        except BlockingIOError:  # Nobody has read yet.
            pass

def child():
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            serve(writes)
        finally:
            os._exit(1)
    os.close(writes)
    return pid, reads

def end(pid, reads):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    told = b""
    while part := os.read(reads, 1 << 16):
        told += part
    os.close(reads)
    return {told[i:i + 64] for i in range(len(told) % 64, len(told), 64)}

began = time.monotonic()
keeper = child()
# The function's own answer, and then that of native code.
right = {os.read(keeper[1], 64) for _ in range(20)}
whole_s = time.monotonic() - began
wrong, served, rng = 0, 0, random.Random(46)
for turn in range(200):
    if turn >= 60 and served:
        break
    one = child()
    time.sleep(rng.random() * min(whole_s, 0.5))  # On purpose: the instant
    answers = end(*one)
    served += bool(answers)
    wrong += not answers <= right
alive = os.waitpid(keeper[0], os.WNOHANG)[0] == 0
last = child()
wrong += not {os.read(last[1], 64)} | end(*last) <= right
wrong += not end(*keeper) <= right
print(json.dumps([wrong, served, alive]))
'''


def test_clients_that_are_killed_at_any_instant_leave_nothing(store):
    wrong, served, alive = store.finish(store.start(KILLED))
    assert wrong == 0 and alive and served > 0
    assert shares(store, 0) == []
