# SPDX-License-Identifier: Apache-2.0
"""What a call leaves behind: counters, collected results, caches, buffers."""
import collections
import dataclasses
import itertools

import torch

native = None


def inputs():
    return (torch.arange(4.0),)


# %% counter_global
count = 0
def fn(x):
    global count
    count += 1
    return x * count
mutations = ["count = 10"]

# %% counter_not_used
count = 0
def fn(x):
    global count
    count += 1
    return x * 2
mutations = ["count = 10"]

# %% counter_closure
def make():
    count = 0
    def fn(x):
        nonlocal count
        count += 1
        return x * count
    return fn
fn = make()
mutations = ["fn.__closure__[0].cell_contents = 10"]

# %% counter_attribute
class Box:
    def __init__(self): self.n = 0
    def run(self, x):
        self.n += 1
        return x * self.n
box = Box()
fn = box.run
mutations = ["box.n = 10"]

# %% counter_class_attribute
class Box: n = 0
def fn(x):
    Box.n += 1
    return x * Box.n
mutations = ["Box.n = 10"]

# %% counter_slot
class Box:
    __slots__ = ("n",)
box = Box()
box.n = 0
def fn(x):
    box.n += 1
    return x * box.n
mutations = ["box.n = 10"]

# %% counter_dict
state = {"n": 0}
def fn(x):
    state["n"] += 1
    return x * state["n"]
mutations = ["state['n'] = 10"]

# %% counter_list
state = [0]
def fn(x):
    state[0] += 1
    return x * state[0]
mutations = ["state[0] = 10"]

# %% counter_default_argument
def fn(x, state=[0]):
    state[0] += 1
    return x * state[0]
mutations = ["fn.__defaults__[0][0] = 10"]

# %% counter_function_attribute
def fn(x):
    fn.n += 1
    return x * fn.n
fn.n = 0
mutations = ["fn.n = 10"]

# %% counter_tensor
steps = torch.zeros(())
def fn(x):
    steps.add_(1)
    return x * steps
mutations = ["steps.fill_(10)"]

# %% counter_float_tensor_rebound
total = torch.zeros(4)
def fn(x):
    global total
    total = total + x
    return total * 2
mutations = ["total = torch.ones(4)", "total.zero_()"]

# %% counter_of_collections
counts = collections.Counter()
def fn(x):
    counts["calls"] += 1
    counts.update(rows=x.shape[0])
    return x * counts["calls"]
mutations = ["counts['calls'] = 10"]

# %% counter_that_saturates
n = 0
def fn(x):
    global n
    n = min(n + 1, 2)
    return x * n
mutations = ["n = 0"]

# %% counter_by_modulus
n = 0
def fn(x):
    global n
    n = (n + 1) % 3
    return x * 2 if n == 0 else x * 3
mutations = ["n = 1"]

# %% warm_up_once
ready = False
def fn(x):
    global ready
    if not ready:
        ready = True
        return x * 100
    return x * 2
mutations = ["ready = False"]

# %% lazy_table
table = None
def fn(x):
    global table
    if table is None:
        table = torch.full((4,), 2.0)
    return x * table
mutations = ["table = None", "table.add_(1)"]

# %% last_result_global
last = None
def fn(x):
    global last
    y = x * 2
    last = y
    return y
mutations = ["last = None", "last.zero_()"]

# %% last_result_attribute
class Box: pass
box = Box()
def fn(x):
    box.last = x * 2
    return box.last + 1
mutations = ["del box.last", "box.last = 3"]

# %% last_input_kept
seen = {}
def fn(x):
    seen["x"] = x
    return x * 2
mutations = ["seen.clear()"]

# %% result_depends_on_the_last
last = torch.zeros(4)
def fn(x):
    global last
    y = x + last
    last = x
    return y
mutations = ["last = torch.ones(4)"]

# %% results_appended
out = []
def fn(x):
    y = x * 2
    out.append(y)
    return y
mutations = ["out.clear()", "out = []"]

# %% results_appended_and_counted
out = []
def fn(x):
    out.append(x * 2)
    return x * len(out)
mutations = ["out.clear()"]

# %% numbers_appended
log = []
def fn(x):
    log.append(x.shape[0])
    log.append("call")
    return x * 2
mutations = ["log.clear()"]

# %% results_extended_and_popped
out = [1, 2, 3]
def fn(x):
    out.extend([x + 1, x + 2])
    out.pop(0)
    out.insert(0, "first")
    return x * 2
mutations = ["out[:] = [1]"]

# %% window_of_results
out = collections.deque(maxlen=2)
def fn(x):
    out.append(x * 2)
    return x + 1
mutations = ["out.clear()", "out = collections.deque(maxlen=1)"]

# %% window_that_is_read
out = collections.deque([torch.zeros(4)], maxlen=2)
def fn(x):
    y = x + sum(out)
    out.append(y)
    return y
mutations = ["out.clear(); out.append(torch.ones(4))"]

# %% ring_buffer_by_position
ring, at = torch.zeros(3, 4), 0
def fn(x):
    global at
    ring[at] = x
    at = (at + 1) % 3
    return ring.sum(0)
mutations = ["at = 2", "ring.zero_()"]

# %% ring_buffer_by_tensor_position
ring, at = torch.zeros(3, 4), torch.zeros((), dtype=torch.int64)
def fn(x):
    ring.index_copy_(0, at.unsqueeze(0), x.unsqueeze(0))
    at.add_(1).remainder_(3)
    return ring.sum(0)
mutations = ["at.fill_(2)", "ring.zero_()"]

# %% ring_buffer_object
class Ring:
    def __init__(self, n): self.items, self.at = [0.0] * n, 0
    def push(self, item):
        self.items[self.at] = item
        self.at = (self.at + 1) % len(self.items)
ring = Ring(3)
def fn(x):
    ring.push(x.shape[0])
    return x * sum(ring.items)
mutations = ["ring = Ring(2)"]

# %% dict_filled_by_size
cache = {}
def fn(x):
    n = x.shape[0]
    if n not in cache:
        cache[n] = n * 2.0
    return x * cache[n]
mutations = ["cache.clear()", "cache[4] = 5.0"]

# %% dict_setdefault
cache = {}
def fn(x):
    return x * cache.setdefault("k", 2.0)
mutations = ["cache['k'] = 3.0", "cache.clear()"]

# %% dict_updated
state = {"a": 1}
def fn(x):
    state.update(last=x * 2, n=x.shape[0])
    state.pop("a", None)
    return x + 1
mutations = ["state['a'] = 1", "state.clear()"]

# %% defaultdict_filled
groups = collections.defaultdict(list)
def fn(x):
    groups[x.shape[0]].append(x + 1)
    return x * len(groups)
mutations = ["groups.clear()", "groups[7]"]

# %% set_filled
seen = set()
def fn(x):
    new = x.shape[0] not in seen
    seen.add(x.shape[0])
    return x * 2 if new else x * 3
mutations = ["seen.clear()"]

# %% ordered_dict_as_lru
cache = collections.OrderedDict(a=1.0, b=2.0)
def fn(x):
    cache.move_to_end("a")
    cache["n"] = x.shape[0]
    if len(cache) > 3:
        cache.popitem(last=False)
    return x * sum(cache.values())
mutations = ["cache['z'] = 4.0", "cache.clear(); cache['a'] = 2.0"]

# %% property_setter
class Box:
    def __init__(self): self._k, self.sets = 1.0, 0
    @property
    def k(self): return self._k
    @k.setter
    def k(self, value):
        self._k, self.sets = value, self.sets + 1
box = Box()
def fn(x):
    box.k = x.shape[0]
    return x * box.k
mutations = ["box.k = 9.0"]

# %% setattr_method
class Box:
    def __setattr__(self, name, value): object.__setattr__(self, name, value * 2)
box = Box()
def fn(x):
    box.y = x + 1
    return box.y
mutations = ["Box.__setattr__ = object.__setattr__"]

# %% setitem_method
class Table:
    def __init__(self): self.rows = []
    def __setitem__(self, key, value): self.rows.append((key, value))
table = Table()
def fn(x):
    table["k"] = x + 1
    return x * len(table.rows)
mutations = ["table.rows.clear()"]

# %% deletion
state = {"a": 1.0}
def fn(x):
    if "a" in state:
        del state["a"]
        return x * 2
    return x * 3
mutations = ["state['a'] = 5.0"]

# %% attribute_deleted
class Box: pass
box = Box()
box.k = 2.0
def fn(x):
    k = getattr(box, "k", 1.0)
    if hasattr(box, "k"):
        del box.k
    return x * k
mutations = ["box.k = 5.0"]

# %% dataclass_statistics
@dataclasses.dataclass
class Stats:
    calls: int = 0
    rows: int = 0
    last: object = None
stats = Stats()
def fn(x):
    stats.calls += 1
    stats.rows += x.shape[0]
    stats.last = x * 2
    return stats.last + 1
mutations = ["stats = Stats()", "stats.calls = 100"]

# %% iterator_counter_in_an_object
class Ids:
    def __init__(self): self.it = itertools.count()
    def next(self): return next(self.it)
ids = Ids()
def fn(x):
    return x * ids.next()
mutations = ["ids = Ids()"]

# %% input_written
def fn(x):
    x.add_(k)
    return x * 2
k = 1.0
mutations = ["k = 2.0"]

# %% input_list_appended
def fn(x, out):
    out.append(x * 2)
    return x + len(out)
n = 0
def inputs():
    return torch.arange(4.0), [0] * n
mutations = ["n = 2", "n = 0"]

# %% input_dict_written
def fn(x, out):
    out["y"] = x * 2
    out["n"] = len(out)
    return x
more = {}
def inputs():
    return torch.arange(4.0), dict(more)
mutations = ["more['y'] = 1", "more['z'] = 2"]

# %% input_object_written
class Out: pass
def fn(x, out):
    out.y = x * 2
    return x + 1
def inputs():
    return torch.arange(4.0), Out()
mutations = ["Out.y = 3"]

# %% global_tensor_written
w = torch.zeros(4)
def fn(x):
    w.add_(x)
    return w * 2
mutations = ["w.zero_()", "w = torch.ones(4)"]

# %% global_tensor_row_written
table = torch.zeros(3, 4)
row = 0
def fn(x):
    table[row] = x
    table[row, 1:3] *= 2
    return table.sum()
mutations = ["row = 2", "table.zero_()"]

# %% write_then_exception
log = []
def fn(x):
    log.append(len(log))
    if len(log) > limit:
        raise ValueError("full")
    return x * 2
limit = 3
mutations = ["log.clear()", "limit = 0"]

# %% write_read_back
state = {"k": 1.0}
def fn(x):
    state["k"] = 5.0
    state["j"] = state["k"] + 1
    return x * state["k"] + state["j"]
mutations = ["state['k'] = 2.0", "state.clear()"]

# %% swap_of_two
a, b = torch.full((4,), 2.0), torch.full((4,), 3.0)
def fn(x):
    global a, b
    a, b = b, a
    return x * a - b
mutations = ["a = torch.ones(4)"]

# %% linked_list
class Node:
    def __init__(self, value, rest=None): self.value, self.rest = value, rest
head = None
def fn(x):
    global head
    head = Node(x * 2, head)
    return x + 1
mutations = ["head = None"]

# %% memo_decorator
def memo(f):
    table = {}
    def wrapper(n):
        if n not in table:
            table[n] = f(n)
        return table[n]
    wrapper.table = table
    return wrapper
@memo
def scale(n): return n * 1.5
def fn(x):
    return x * scale(x.shape[0])
mutations = ["scale.table[4] = 9.0", "scale.table.clear()"]

# %% call_counting_decorator
def counted(f):
    def wrapper(x):
        wrapper.calls += 1
        return f(x)
    wrapper.calls = 0
    return wrapper
@counted
def helper(x): return x * 2
def fn(x):
    return helper(x) + 1
mutations = ["helper.calls = 100"]


# %% one_item_written_and_another_read
buffer = [0.0, 1.0]


def fn(x):
    buffer[0] = 3.0
    return x * buffer[1]

def inputs():
    return (torch.arange(3.0),)
mutations = ["buffer[1] = 7.0", "buffer = [0.0, 2.0]", "buffer.append(1.0)", "del buffer[1]"]


# %% one_item_written_and_all_read
ring = collections.deque([0.0, 1.0, 2.0])


def fn(x):
    n = len(ring)
    ring[0] = 5.0
    return x * sum(ring) + n

def inputs():
    return (torch.arange(3.0),)
mutations = ["ring[1] = 7.0", "ring.append(9.0)", "ring.rotate(1)"]


# %% a_slice_takes_what_a_list_from_before_holds
source = [4.0, 5.0]


def fn(x):
    own = [1.0, 2.0, 3.0]
    own[:2] = source
    return x * own[0] + len(own)


def inputs():
    return (torch.arange(3.0),)
mutations = ["source[0] = 9.0", "source.append(1.0)", "source = (7.0,)"]
