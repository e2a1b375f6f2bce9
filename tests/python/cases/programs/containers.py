# SPDX-License-Identifier: Apache-2.0
"""Lists, dicts, sets and their relatives that a function reads."""
import array
import collections
import dataclasses
import enum
import types
import typing

import torch


def inputs():
    return (torch.arange(4.0),)


# %% list_items
ks = [2.0, 3.0, 4.0]
def fn(x):
    return x * ks[0] + ks[-1]
mutations = ["ks[0] = 5.0", "ks.append(7.0)", "ks = [1.0]", "del ks[0]; ks.append(8)"]
needless = ["ks[1] = 9.0"]

# %% list_iteration
ks = [2.0, 3.0]
def fn(x):
    for k in ks:
        x = x * k + 1
    return x
mutations = ["ks.append(4.0)", "ks.pop()", "ks[1] = 0.5", "ks.reverse()", "ks.clear()"]

# %% list_length
ks = [2.0, 3.0]
def fn(x):
    return x * len(ks)
mutations = ["ks.append(None)", "ks *= 2"]
needless = ["ks[0] = 9"]

# %% list_truth
ks = []
def fn(x):
    return x + 1 if ks else x - 1
mutations = ["ks.append(1)", "ks.clear()"]

# %% list_slices
ks = [1.0, 2.0, 3.0, 4.0]
def fn(x):
    return x * sum(ks[1:3]) + ks[-2:][0] + len(ks[::2])
mutations = ["ks[2] = 9.0", "ks.insert(0, 5.0)", "ks[:] = [1.0, 1.0]"]

# %% list_containment_index_count
ks = [1, 2, 2]
def fn(x):
    return x * ks.count(2) + ks.index(2) + (3 in ks)
mutations = ["ks.append(3)", "ks[0] = 2", "ks.remove(2)"]

# %% list_comprehensions
ks = [1.0, -2.0, 3.0]
def fn(x):
    return x * sum(k * 2 for k in ks if k > 0) + len([k for k in ks]) + len({int(k): k for k in ks}) + len({k > 0 for k in ks})
mutations = ["ks[1] = 5.0", "ks.append(-1.0)", "ks = ks[:1]"]

# %% list_unpacking
pair = [2.0, 3.0]
def fn(x):
    a, b = pair
    first, *rest = pair
    return x * a + b - first + len(rest)
mutations = ["pair[0] = 5.0", "pair = (7.0, 8.0)", "pair = [9.0, 1.0]"]

# %% list_star_in_displays
ks = [2.0, 3.0]
more = {"a": 1.0}
def fn(x):
    both, table = [1.0, *ks], {**more, "b": 2.0}
    return x * sum(both) + sum(table.values())
mutations = ["ks.append(4.0)", "more['c'] = 5.0", "more['b'] = 9.0"]

# %% list_comparison
ks, want = [1, 2], [1, 2]
def fn(x):
    return x + 1 if ks == want else x - 1
mutations = ["ks.append(3)", "want = [1, 2, 3]", "ks[0] = 0"]

# %% list_of_lists
grid = [[1.0, 2.0], [3.0, 4.0]]
def fn(x):
    return x * sum(sum(row) for row in grid) + grid[1][0]
mutations = ["grid[0][1] = 9.0", "grid[1] = grid[0]", "grid.append([1.0])"]

# %% list_of_functions
stages = [torch.relu, torch.neg]
def fn(x):
    for stage in stages:
        x = stage(x) + 1
    return x
mutations = ["stages.append(torch.abs)", "stages[0] = torch.exp", "stages.pop()"]

# %% list_in_itself
loop = [2.0]
loop.append(loop)
def fn(x):
    return x * loop[1][1][0]
mutations = ["loop[0] = 3.0", "loop[1] = [0, [5.0]]"]

# %% list_subclass
class Stack(list):
    def top(self): return self[-1]
stack = Stack([1.0, 2.0])
def fn(x):
    return x * stack.top() + len(stack)
mutations = ["stack.append(5.0)", "Stack.top = lambda self: self[0]", "stack.name = 'a'"]

# %% tuple_items
ks = (2.0, [3.0])
def fn(x):
    return x * ks[0] + ks[1][0]
mutations = ["ks[1][0] = 5.0", "ks = (4.0, [1.0])"]

# %% tuple_containment
names = ("a", "b")
def fn(x):
    return x + 1 if "a" in names else x - 1
mutations = ["names = ('b',)", "names = ('b', 'a')"]

# %% dict_items
table = {"k": 2.0, "unread": 0}
def fn(x):
    return x * table["k"]
mutations = ["table['k'] = 3.0", "table = {'k': 4.0}", "table.update(k=5.0)", "del table['k']"]
needless = ["table['unread'] = 1", "table['more'] = 1"]

# %% dict_get_and_containment
table = {"k": 2.0}
def fn(x):
    return x * table.get("k", 1.0) + table.get("b", 0.5) + ("c" in table) + ("d" not in table)
mutations = ["table['b'] = 3.0", "table['c'] = None", "table['d'] = 1", "table.pop('k')"]
needless = ["table['e'] = 3"]

# %% dict_iteration
table = {"a": 1.0, "b": 2.0}
def fn(x):
    for name in table:
        x = x * table[name] + len(name)
    for name, value in table.items():
        x = x + value
    return x + sum(table.values()) + len(table.keys())
mutations = ["table['c'] = 3.0", "table['a'] = 5.0", "table['a'] = table.pop('a')", "table.clear()"]

# %% dict_order
table = {"a": 1.0, "b": 2.0}
def fn(x):
    for value in table.values():
        x = (x + value) * value
    return x
mutations = ["table['a'] = table.pop('a')", "table = dict(reversed(list(table.items())))"]

# %% dict_views
table = {"a": 1.0, "b": 2.0}
keys, values = table.keys(), table.values()
def fn(x):
    return x * len(keys) + sum(values) + ("c" in keys)
mutations = ["table['c'] = 3.0", "table['a'] = 7.0"]

# %% dict_of_dicts
table = {"a": {"b": {"c": 2.0}}}
def fn(x):
    return x * table["a"]["b"]["c"]
mutations = ["table['a']['b']['c'] = 3.0", "table['a']['b'] = {'c': 4.0}", "table['a'] = {'b': {'c': 5.0}}"]

# %% dict_of_functions
acts = {"relu": torch.relu, "double": lambda x: x * 2}
name = "relu"
def fn(x):
    return acts[name](x - 1)
mutations = ["name = 'double'", "acts['double'] = lambda x: x * 3", "acts['double'] = torch.neg"]
needless = ["acts['other'] = torch.abs"]

# %% dict_keys_of_many_kinds
native = None  # no path names such keys
table = {1: 2.0, (1, "a"): 3.0, None: 4.0, torch.float32: 5.0, 1.5: 6.0, frozenset({1}): 7.0}
def fn(x):
    return x * table[1] + table[(1, "a")] + table[None] + table[x.dtype] + table[1.5] + table[frozenset({1})]
mutations = ["table[(1, 'a')] = 9.0", "table[torch.float32] = 1.0", "table[True] = 8.0"]

# %% dict_comparison
a, b = {"k": 1}, {"k": 1}
def fn(x):
    return x + 1 if a == b else x - 1
mutations = ["b['k'] = 2", "a['k'] = 2", "b['more'] = 1"]

# %% dict_merge
base, more = {"a": 1.0}, {"b": 2.0}
def fn(x):
    both = base | more
    return x * sum(both.values()), both
mutations = ["more['a'] = 5.0", "base = {}"]

# %% dict_subclass_with_missing
class Table(dict):
    def __missing__(self, key): return len(key) * 1.0
table = Table(k=2.0)
def fn(x):
    return x * table["k"] + table["other"]
mutations = ["table['other'] = 3.0", "Table.__missing__ = lambda self, key: 9.0"]

# %% attribute_dict
class Table(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__
table = Table(k=2.0, inner=Table(b=1.0))
def fn(x):
    return x * table.k + table.inner.b
mutations = ["table.k = 3.0", "table.inner.b = 4.0", "table['inner'] = Table(b=5.0)"]

# %% ordered_dict
table = collections.OrderedDict(a=1.0, b=2.0)
def fn(x):
    for name, value in table.items():
        x = (x + value) * value
    return x
mutations = ["table.move_to_end('a')", "table['c'] = 3.0", "table.popitem()"]

# %% defaultdict_read
table = collections.defaultdict(lambda: 1.0, a=2.0)
def fn(x):
    return x * table["a"] + table.get("b", 0.0)
mutations = ["table['a'] = 3.0", "table['b'] = 4.0"]

# %% counter_read
counts = collections.Counter("aab")
def fn(x):
    return x * counts["a"] + counts["z"] + counts.most_common(1)[0][1]
mutations = ["counts['a'] = 5", "counts.update('zz')"]
native = None

# %% chain_map
first, second = {"a": 1.0}, {"b": 2.0}
table = collections.ChainMap(first, second)
def fn(x):
    return x * table["a"] + table["b"]
mutations = ["second['b'] = 3.0", "first['b'] = 5.0", "table.maps.reverse()"]

# %% mapping_proxy
table = {"k": 2.0}
proxy = types.MappingProxyType(table)
def fn(x):
    return x * proxy["k"] + len(proxy)
mutations = ["table['k'] = 3.0", "table['b'] = 1"]

# %% user_dict
table = collections.UserDict(k=2.0)
def fn(x):
    return x * table["k"]
mutations = ["table['k'] = 3.0", "table.data = {'k': 4.0}"]

# %% sets
names = {"a", "b"}
def fn(x):
    return x * len(names) + ("a" in names) + len(names & {"a", "c"}) + len(names | {"z"})
mutations = ["names.add('c')", "names.discard('a')", "names = {'a', 'b'}"]

# %% set_sorted
names = {3, 1, 2}
def fn(x):
    for n in sorted(names):
        x = x * n + 1
    return x
mutations = ["names.add(5)", "names.discard(3)"]

# %% set_algebra
have, need = {"a", "b"}, frozenset({"a"})
def fn(x):
    return x + 1 if need <= have and not need.isdisjoint(have) else x - 1
mutations = ["have.discard('a')", "need = frozenset({'b'})"]

# %% deque_items
ks = collections.deque([1.0, 2.0], maxlen=3)
def fn(x):
    return x * ks[0] + ks[-1] + len(ks) + (ks.maxlen or 0)
mutations = ["ks.append(5.0)", "ks.appendleft(6.0)", "ks[0] = 7.0", "ks.rotate(1)"]

# %% deque_iteration
ks = collections.deque([1.0, 2.0])
def fn(x):
    for k in ks:
        x = x + k
    return x
mutations = ["ks.append(5.0)", "ks.popleft()"]

# %% array_items
ks = array.array("d", [2.0, 3.0])
def fn(x):
    return x * ks[0] + len(ks) + sum(ks)
mutations = ["ks[0] = 5.0", "ks.append(1.0)"]

# %% bytes_and_bytearray
fixed, changing = b"ab", bytearray(b"cd")
def fn(x):
    return x * fixed[0] + changing[0] + len(changing)
mutations = ["changing[0] = 1", "changing.append(2)", "fixed = b'zz'"]

# %% memoryview_items
memory = bytearray(b"\x01\x02")
view = memoryview(memory)
def fn(x):
    return x * view[0]
mutations = ["memory[0] = 9"]
native = None

# %% ranges
steps = range(3)
def fn(x):
    for i in steps:
        x = x + i
    return x * len(steps)
mutations = ["steps = range(1, 5)", "steps = range(0)"]

# %% strings
name = "layer.0.weight"
def fn(x):
    parts = name.split(".")
    return x * len(parts) + int(parts[1]) + name.count("e") + (name[0] == "l") + len(name.replace("layer", "l").upper())
mutations = ["name = 'layer.5.bias'", "name = 'x.1'"]

# %% namedtuple
Pair = collections.namedtuple("Pair", "left right")
pair = Pair(2.0, 3.0)
def fn(x):
    a, b = pair
    return x * pair.left + pair[1] + a - b
mutations = ["pair = pair._replace(left=5.0)", "pair = Pair(1.0, 1.0)"]

# %% typed_namedtuple_with_methods
class Pair(typing.NamedTuple):
    left: float = 2.0
    right: float = 3.0
    def both(self): return self.left * self.right
pair = Pair()
def fn(x):
    return x * pair.both()
mutations = ["pair = Pair(4.0)", "Pair.both = lambda self: 1.0"]

# %% dataclass
@dataclasses.dataclass
class Options:
    scale: float = 2.0
    names: list = dataclasses.field(default_factory=lambda: ["a"])
    unread: int = 0
options = Options()
def fn(x):
    return x * options.scale + len(options.names)
mutations = ["options.scale = 3.0", "options.names.append('b')", "options = Options(4.0)"]
needless = ["options.unread = 1"]

# %% frozen_dataclass
@dataclasses.dataclass(frozen=True)
class Options:
    scale: float = 2.0
options = Options()
def fn(x):
    return x * options.scale
mutations = ["options = dataclasses.replace(options, scale=3.0)", "object.__setattr__(options, 'scale', 4.0)"]

# %% dataclass_with_slots_and_post_init
@dataclasses.dataclass(slots=True)
class Options:
    scale: float = 2.0
    twice: float = 0.0
    def __post_init__(self): self.twice = self.scale * 2
options = Options()
def fn(x):
    return x * options.twice
mutations = ["options.twice = 1.0", "options = Options(5.0)"]

# %% dataclass_fields
@dataclasses.dataclass
class Options:
    a: float = 2.0
    b: float = 3.0
options = Options()
def fn(x):
    for field in dataclasses.fields(options):
        x = x * getattr(options, field.name)
    return x + sum(dataclasses.astuple(options))
mutations = ["options.a = 5.0"]
native = None

# %% enum_members
class Mode(enum.Enum):
    ADD = 1.0
    MUL = 2.0
mode = Mode.ADD
def fn(x):
    if mode is Mode.ADD:
        return x + mode.value
    return x * mode.value * len(mode.name)
mutations = ["mode = Mode.MUL", "mode = Mode(1.0)", "mode = Mode['MUL']"]

# %% enum_iteration_and_flags
native = None  # flags keep what they have made
class Bits(enum.IntFlag):
    A = 1
    B = 2
bits = Bits.A
def fn(x):
    return x * (2 if bits & Bits.B else 3) + sum(int(b) for b in (Bits.A, Bits.B))
mutations = ["bits = Bits.A | Bits.B", "bits = Bits.B"]

# %% simple_namespace
config = types.SimpleNamespace(k=2.0, inner=types.SimpleNamespace(b=1.0), unread=1)
def fn(x):
    return x * config.k + config.inner.b
mutations = ["config.k = 3.0", "config.inner.b = 4.0", "config.inner = types.SimpleNamespace(b=9.0)"]
needless = ["config.unread = 2"]

# %% nested_everything
state = {"layers": [{"k": (1.0, [2.0, {"deep": 3.0}])}]}
def fn(x):
    return x * state["layers"][0]["k"][1][1]["deep"] + len(state["layers"])
mutations = ["state['layers'][0]['k'][1][1]['deep'] = 4.0", "state['layers'].append({})", "state['layers'][0] = {'k': (0, [0, {'deep': 5.0}])}"]

# %% list_as_a_stack_in_the_call
start = [1.0, 2.0]
def fn(x):
    todo = list(start)
    while todo:
        x = x + todo.pop()
        if len(todo) > 3:
            break
    return x
mutations = ["start.append(3.0)", "start[0] = 7.0"]

# %% dict_built_in_the_call
names = ["a", "b"]
def fn(x):
    table = {name: i + 1.0 for i, name in enumerate(names)}
    table.setdefault("c", 3.0)
    table["a"] = table["a"] + 1
    return x * sum(table.values())
mutations = ["names.append('d')", "names[1] = 'a'"]

# %% iterator_from_before
it = iter([2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
native = False
def fn(x):
    return x * next(it, 1.0)
mutations = ["it = iter([7.0])"]

# %% zip_from_before
pairs = zip([1.0, 2.0], [3.0, 4.0])
native = False
def fn(x):
    for a, b in pairs:
        x = x * a + b
    return x
mutations = ["pairs = zip([5.0], [6.0])"]

# %% sizes_as_values
shape = torch.Size([2, 2])
def fn(x):
    return x.reshape(shape) * shape[0] + shape.numel()
mutations = ["shape = torch.Size([4, 1])"]
