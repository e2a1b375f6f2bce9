# SPDX-License-Identifier: Apache-2.0
"""Iterators that existed before the call, taken up by everything that iterates; and locks, hashes and addresses."""
import collections
import itertools
import operator
import sys
import threading

import torch

native = None


def inputs():
    return (torch.arange(4.0),)


# %% sum_of_an_iterator
it = iter([1.0, 2.0, 3.0])
def fn(x):
    return x + sum(it)
mutations = ["it = iter([4.0])"]

# %% list_of_an_iterator
it = map(lambda k: k * 2, [1.0, 2.0])
def fn(x):
    return x + len(list(it))
mutations = ["it = filter(None, [4.0, 0.0])"]

# %% unpacking_an_iterator
it = iter([(1.0, 2.0), (3.0, 4.0), (5.0, 6.0), (7.0, 8.0), (9.0, 10.0), (11.0, 12.0)])
def fn(x):
    a, b = next(it)
    return x * a + b
mutations = ["it = iter([(9.0, 8.0)] * 5)"]

# %% star_of_an_iterator
it = iter([1.0, 2.0])
def fn(x):
    return x + len([*it]) + max(0, *it, 0)
mutations = ["it = iter([4.0, 5.0])"]

# %% star_call_of_an_iterator
def count(*values):
    return len(values)
it = (k for k in [1.0, 2.0])
def fn(x):
    return x + count(*it)
mutations = ["it = (k for k in [1.0])"]

# %% containment_in_an_iterator
it = iter([1, 2, 3, 4, 5, 6])
def fn(x):
    return x + 1 if 3 in it else x - 1
mutations = ["it = iter([3])"]

# %% islice_of_an_iterator
it = itertools.count(1)
def fn(x):
    return x + sum(itertools.islice(it, 2))
mutations = ["it = itertools.count(7)"]

# %% zip_of_an_iterator
it = itertools.count(1)
def fn(x):
    for a, b in zip([1.0, 2.0], it):
        x = x * a + b
    return x
mutations = ["it = itertools.count(7)"]

# %% enumerate_from_before
it = enumerate([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
def fn(x):
    i, k = next(it)
    return x * k + i
mutations = ["it = enumerate([5.0] * 9)"]

# %% reversed_from_before
it = reversed([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
def fn(x):
    return x * next(it, 0.5)

# %% dict_of_an_iterator
it = zip("ab", [1.0, 2.0])
def fn(x):
    return x + sum(dict(it).values())
mutations = ["it = zip('a', [5.0])"]

# %% join_of_an_iterator
it = iter(["a", "b"])
def fn(x):
    return x + len("-".join(it))
mutations = ["it = iter(['abc'])"]

# %% sorted_iterator
it = iter([3.0, 1.0])
def fn(x):
    for k in sorted(it, key=lambda k: -k):
        x = x * k
    return x
mutations = ["it = iter([2.0])"]

# %% reduce_of_an_iterator
import functools
it = iter([3.0, 1.0])
def fn(x):
    return functools.reduce(lambda a, b: a + b, it, x)
mutations = ["it = iter([2.0])"]

# %% extended_by_an_iterator
it, out = iter([3.0, 1.0]), []
def fn(x):
    out.extend(it)
    return x + len(out)
mutations = ["it = iter([2.0])"]

# %% any_of_a_generator_from_before
it = (k > 2 for k in [1, 2, 3, 4, 1, 1, 1])
def fn(x):
    return x + 1 if any(it) else x - 1

# %% stack_of_an_iterator
it = iter([torch.ones(4), torch.ones(4) * 2])
def fn(x):
    parts = tuple(it)
    return x + (torch.stack(parts).sum(0) if parts else 9.0)
mutations = ["it = iter([torch.ones(4) * 5])"]

# %% chain_from_before
it = itertools.chain([1.0], [2.0], [3.0, 4.0, 5.0, 6.0])
def fn(x):
    for k in it:
        return x * k
    return x
mutations = ["it = itertools.chain.from_iterable([[7.0]])"]

# %% user_iterator_from_before
class Down:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self):
        self.n -= 1
        if self.n < 0:
            raise StopIteration
        return self.n
it = Down(20)
def fn(x):
    return x * next(it) + sum(k for k, _ in zip(it, range(2)))
mutations = ["it = Down(9)", "it.n = 5"]

# %% generator_with_state_inside
def steps():
    total = 0.0
    while True:
        k = yield total
        total += k or 1.0
it = steps()
next(it)
def fn(x):
    return x * it.send(2.0)
mutations = ["it = steps(); next(it)"]

# %% file_lines
import io
file = io.StringIO("1\n2\n3\n4\n5\n6\n7\n")
def fn(x):
    return x * float(file.readline() or 0.5)
mutations = ["file.seek(0)"]

# %% queue
import queue
waiting = queue.SimpleQueue()
for k in range(1, 5):
    waiting.put(float(k))
def fn(x):
    return x * waiting.get() if not waiting.empty() else x
mutations = ["waiting.put(9.0)"]

# %% heap
import heapq
heap = [3.0, 5.0, 4.0]
def fn(x):
    k = heapq.heappop(heap) if heap else 1.0
    heapq.heappush(heap, k + 2)
    return x * k
mutations = ["heap[:] = [1.0]"]

# %% bisect
import bisect
edges = [1.0, 2.0, 3.0]
def fn(x):
    return x * bisect.bisect(edges, 2.5)
mutations = ["edges.insert(0, 0.0)", "edges[-1] = 2.2"]

# %% lock_state
lock = threading.Lock()
def fn(x):
    if lock.acquire(blocking=False):
        lock.release()
        return x * 2
    return x * 3
mutations = ["lock.acquire()", "lock.release()"]

# %% lock_is_toggled
lock = threading.Lock()
def fn(x):
    release, acquire = lock.release, lock.acquire
    if lock.locked():
        release()
    else:
        acquire()
    return x * 2
mutations = ["pass"]
native = False

# %% lock_is_taken_and_given_back
lock = threading.Lock()
def fn(x):
    lock.acquire()
    try:
        y = x * 2
    finally:
        lock.release()
    with lock:
        return y + 1

# %% lock_is_asked
lock = threading.Lock()
def fn(x):
    return x * 2 if lock.locked() else x * 3
mutations = ["lock.acquire()", "lock.release()"]

# %% event_state
event = threading.Event()
def fn(x):
    return x * 2 if event.is_set() else x * 3
mutations = ["event.set()", "event.clear()"]

# %% hash_of_an_object
class Key: pass
key = Key()
def fn(x):
    return x * 2 if hash(key) == _known else x * 3
_known = hash(key)
mutations = ["_known = 0", "key = Key(); _known = hash(key)", "Key.__hash__ = lambda self: 5", "_known = 5"]

# %% hash_of_values
values = ("a", 1, 2.0)
def fn(x):
    return x * (hash(values[1:]) % 7) + (hash(values) == _known)
_known = hash(values)
mutations = ["values = ('b', 1, 3.0)", "_known = hash(values)"]

# %% address_in_a_text
class Key: pass
key = Key()
def fn(x):
    return x * 2 if repr(key) == _known else x * 3
_known = repr(key)
mutations = ["_known = ''", "_known = repr(key)", "Key.__repr__ = lambda self: 'k'", "_known = 'k'"]

# %% size_of_an_object
values = [1.0]
def fn(x):
    return x * 2 if sys.getsizeof(values) == _known else x * 3
_known = sys.getsizeof(values)
mutations = ["values.extend(range(100))", "_known = sys.getsizeof(values)"]

# %% thread_that_calls
def fn(x):
    return x * 2 if threading.get_ident() == _known else x * 3
_known = threading.get_ident()
mutations = ["_known = 0", "_known = threading.get_ident()"]

# %% thread_name
def fn(x):
    return x * len(threading.current_thread().name)
mutations = ["threading.current_thread().name = 'other'"]

# %% interned_texts
a = "".join(["one", "two"])
b = "onetwo"
def fn(x):
    return x * 2 if a == b else x * 3
mutations = ["b = 'onetwothree'[:6]", "a = 'x'"]

# %% recursion_limit
def fn(x):
    return x * 2 if sys.getrecursionlimit() > 2000 else x * 3
mutations = ["sys.setrecursionlimit(3000)", "sys.setrecursionlimit(1500)"]

# %% hooks_of_the_interpreter
def fn(x):
    return x * 2 if sys.flags.optimize == 0 and sys.getswitchinterval() < 1 else x * 3
mutations = ["sys.setswitchinterval(2.0)", "sys.setswitchinterval(0.005)"]

# %% exception_under_way
def fn(x):
    return x * 2 if sys.exc_info()[0] is None else x * 3
mutations = ["keep = fn"]

# %% text_of_what_a_getter_gets
class Own:
    def __init__(self, v):
        self.v = v
kept = [Own([1.0])]
def fn(x): return x + sum(map(len, map(str, map(operator.attrgetter('v'), kept))))
def inputs():
    return (torch.arange(4.0),)
mutations = ['kept[0].v.append(2.0)', 'kept[0].v[0] = 100.0']

# %% elements_of_what_a_getter_gets
rows = [[[1.0], 2], [[3.0, 4.0], 5]]
def fn(x): return x + sum(map(sum, map(operator.itemgetter(0), rows)))
def inputs():
    return (torch.arange(4.0),)
mutations = ['rows[1][0].append(2.0)', 'rows[0][0][0] = 100.0']
