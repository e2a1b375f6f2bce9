# SPDX-License-Identifier: Apache-2.0
"""Values that C code takes out of outside objects: texts of containers, comparisons of tensors, copies, buffers, subclasses."""
import collections
import copy
import math
import operator
import types

import numpy as np
import torch

native = None


def inputs():
    return (torch.arange(4.0),)


# %% text_of_a_list
ks = [1, [2, {"a": 3}]]
def fn(x):
    return x * len(str(ks)) + len(f"{ks}") + len("%s" % ks) + len("{!r}".format(ks))
mutations = ["ks[1][1]['a'] = 12345", "ks.append('long')"]

# %% text_of_objects
class Box:
    k = 3
    def __repr__(self): return "x" * self.k
boxes = [Box(), Box()]
def fn(x):
    return x * len(str(boxes)) + len(", ".join(map(repr, boxes)))
mutations = ["boxes[0].k = 10", "Box.__repr__ = lambda self: ''"]

# %% text_of_a_dataclass
import dataclasses
@dataclasses.dataclass
class Options:
    k: int = 1
options = Options()
def fn(x):
    return x * len(repr(options))
mutations = ["options.k = 1000"]

# %% comparison_of_objects_in_lists
class Box:
    def __init__(self, k): self.k = k
    def __eq__(self, other): return self.k == other.k
a, b = [Box(1)], [Box(1)]
def fn(x):
    return x * 2 if a == b and Box(1) in a else x * 3
mutations = ["b[0].k = 2", "a[0].k = 2"]

# %% order_of_objects
class Box:
    def __init__(self, k): self.k = k
    def __lt__(self, other): return self.k < other.k
boxes = [Box(2.0), Box(1.0)]
def fn(x):
    for box in sorted(boxes):
        x = (x + 1) * box.k
    return x + min(boxes).k
mutations = ["boxes[0].k = 0.5", "boxes.append(Box(0.25))"]

# %% keys_that_are_objects
class Key:
    def __init__(self, n): self.n = n
    def __hash__(self): return 1
    def __eq__(self, other): return self.n == other.n
table = {Key(1): 2.0, Key(2): 3.0}
def fn(x):
    return x * table.get(Key(1), 7.0) + (Key(3) in table)
mutations = ["list(table)[0].n = 5", "table[Key(3)] = 1.0"]

# %% sum_of_objects
class Number:
    def __init__(self, v): self.v = v
    def __add__(self, other): return Number(self.v + (other.v if isinstance(other, Number) else other))
    __radd__ = __add__
    def __float__(self): return self.v
numbers = [Number(1.0), Number(2.0)]
def fn(x):
    return x * float(sum(numbers)) + math.sqrt(numbers[0])
mutations = ["numbers[0].v = 4.0", "numbers.append(Number(3.0))"]

# %% index_objects
class At:
    def __init__(self, i): self.i = i
    def __index__(self): return self.i
at, ks = At(1), [1.0, 2.0, 3.0]
def fn(x):
    return x * ks[at] + range(5)[at] + x[at]
mutations = ["at.i = 2", "ks[2] = 9.0"]

# %% copies_of_outside_objects
state = {"a": [1.0, 2.0], "b": types.SimpleNamespace(k=3.0)}
def fn(x):
    own, flat = copy.deepcopy(state), copy.copy(state)
    return x * sum(own["a"]) + own["b"].k + len(flat["a"])
mutations = ["state['a'][0] = 5.0", "state['b'].k = 1.0", "state['a'].append(1.0)"]

# %% slices_of_outside_lists
ks = [1.0, 2.0, 3.0, 4.0]
def fn(x):
    own = ks[1:3] + ks[:1] * 2
    own += [9.0]
    return x * sum(own) + len(own)
mutations = ["ks[1] = 7.0", "ks[3] = 8.0", "del ks[0]"]

# %% list_operators
a, b = [1.0], [2.0]
def fn(x):
    return x * sum(a + b) + len(a * 3) + (a < b) + sum(operator.concat(a, b))
mutations = ["a.append(5.0)", "b[0] = 0.0"]

# %% dict_operators
a, b = {"k": 1.0}, {"j": 2.0}
def fn(x):
    own = {**a, **b}
    other = dict(a, z=4.0)
    other |= b
    return x * sum(own.values()) + sum(other.values()) + len(dict.fromkeys(a, 0)) + (a.keys() < own.keys())
mutations = ["a['m'] = 5.0", "b['k'] = 7.0", "b.clear()"]

# %% set_operators
a, b = {1, 2}, {2, 3}
def fn(x):
    return x * len(a & b) + len(a | b) + len(a - b) + len(a ^ b) + (a <= b) + sum(a) + max(b)
mutations = ["a.add(3)", "b.discard(2)", "a.clear()"]

# %% texts_from_bytes
data = bytearray(b"\x01\x00\x02\x00")
def fn(x):
    return x * int.from_bytes(data[:2], "little") + len(bytes(data)) + np.frombuffer(data, dtype=np.int16)[1].item()
mutations = ["data[0] = 5", "data[2] = 7", "data.extend(b'ab')"]

# %% struct_of_a_buffer
import struct
data = bytearray(struct.pack("<2f", 2.0, 3.0))
def fn(x):
    return x * struct.unpack("<2f", data)[0]
mutations = ["struct.pack_into('<f', data, 0, 7.0)"]

# %% subclasses_of_values
class Count(int):
    unit = 2.0
class Name(str):
    def __len__(self): return 100
count, name = Count(3), Name("ab")
def fn(x):
    return x * count + count.unit + len(name) + str.__len__(name)
mutations = ["Count.unit = 5.0", "count.unit = 6.0", "count = Count(4)", "Name.__len__ = lambda self: 7"]

# %% subclass_of_a_dict_with_own_get
class Table(dict):
    factor = 2.0
    def get(self, key, default=None): return dict.get(self, key, default) * self.factor
    def __iter__(self): return iter(sorted(dict.keys(self)))
table = Table(b=1.0, a=2.0)
def fn(x):
    for key in table:
        x = x + table.get(key) * 2
    return x * len(table)
mutations = ["table.factor = 3.0", "table['c'] = 1.0", "Table.__iter__ = dict.__iter__", "dict.__setitem__(table, 'a', 9.0)"]

# %% subclass_of_a_list_with_own_items
class Rows(list):
    def __getitem__(self, i): return list.__getitem__(self, i) * self.gain
rows = Rows([1.0, 2.0])
rows.gain = 2.0
def fn(x):
    return x * rows[1] + sum(rows)
mutations = ["rows.gain = 3.0", "rows.append(1.0)", "list.__setitem__(rows, 1, 5.0)"]

# %% subclass_of_a_tuple
class Size(tuple):
    def area(self): return self[0] * self[1]
size = Size((2, 3))
def fn(x):
    return x * size.area() + len(size)
mutations = ["size = Size((4, 5))", "Size.area = lambda self: 1"]

# %% tensors_compared
w, v = torch.ones(4), torch.ones(4)
def fn(x):
    return x * 2 if torch.equal(w, v) else x * 3
mutations = ["v[0] = 5.0", "w[0] = 5.0"]

# %% tensors_nearly_equal
w, v = torch.ones(4), torch.ones(4)
def fn(x):
    return x * 2 if torch.allclose(w, v, atol=0.1) else x * 3
mutations = ["v[0] = 1.05", "v[0] = 5.0"]

# %% truth_of_tensors
w = torch.tensor([True, True])
def fn(x):
    return x * 2 if w.all() and bool((~w).any()) is False else x * 3
mutations = ["w[0] = False", "w = torch.tensor([True])"]

# %% tensor_in_a_list
w = torch.tensor(1.0)
ks = [1.0, 2.0]
def fn(x):
    return x * 2 if w in ks else x * 3
mutations = ["w.fill_(5.0)", "ks.append(5.0)"]

# %% tensor_values_out
w = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
def fn(x):
    return x * w.max().item() + len(w) + sum(w[0].tolist()) + float(w[1, 0]) + int(w.argmax()) + [1, 2, 3, 4][w[0, 0].int()]
mutations = ["w[0, 1] = 9.0", "w[1, 0] = 7.0", "w[0, 0] = 2.0"]

# %% tensor_iteration
w = torch.tensor([1.0, 2.0])
def fn(x):
    for k in w:
        x = x * k + 1
    a, b = w
    return x + a - b
mutations = ["w[1] = 5.0", "w = torch.tensor([3.0, 4.0])"]

# %% tensor_text
w = torch.tensor([1.0, 2.0])
def fn(x):
    return x * len(str(w.tolist())) + (f"{w[0]:.1f}" == "1.0")
mutations = ["w[0] = 12345.0"]

# %% tensor_address
w = torch.ones(4)
def fn(x):
    return x * 2 if w.data_ptr() == _known else x * 3
_known = w.data_ptr()
mutations = ["_known = 0", "w = torch.zeros(4); _known = w.data_ptr()"]

# %% tensor_version
w = torch.ones(4)
def fn(x):
    return x * (w._version + 1)
mutations = ["w.add_(1)", "w.mul_(2)"]

# %% tensor_grad_is_read
w = torch.nn.Parameter(torch.ones(4))
def fn(x):
    return x * 2 if w.grad is None else x * w.grad
mutations = ["w.grad = torch.full((4,), 3.0)", "w.grad = None"]

# %% tensor_types_asked
w = torch.ones(4)
def fn(x):
    k = 2 if torch.is_floating_point(w) else 3
    return x * k + (torch.promote_types(w.dtype, torch.int32) == torch.float32) + (torch.result_type(x, w) == torch.float32) + torch.finfo(w.dtype).bits
mutations = ["w = torch.ones(4, dtype=torch.int64)", "w = w.double()"]

# %% tensor_storage_asked
whole = torch.arange(8.0)
w = whole[2:6]
def fn(x):
    return x * w.storage_offset() + w.is_contiguous() + w.untyped_storage().nbytes()
mutations = ["w = whole[3:7]", "w = whole[::2]", "w = torch.ones(4)"]

# %% inference_asked
def fn(x):
    return x * 2 if torch.is_inference_mode_enabled() else x * 3
w = torch.ones(4)
grad = "inference_mode"
mutations = ["w.add_(1)"]

# %% numpy_functions
ks = np.array([1.0, 2.0, 3.0])
def fn(x):
    return x * float(np.dot(ks, ks)) + float(np.mean(ks)) + int(np.argmax(ks)) + float(ks[ks > 1].sum())
mutations = ["ks[0] = 5.0", "ks = ks[:2]", "ks.sort()"]

# %% numpy_objects
row = np.array([(1, 2.0)], dtype=[("a", int), ("b", float)])
def fn(x):
    return x * float(row["b"][0]) + int(row[0]["a"])
mutations = ["row['b'][0] = 5.0"]

# %% attribute_lookup_by_operator
a = types.SimpleNamespace(b=types.SimpleNamespace(c=2.0))
def fn(x):
    return x * operator.attrgetter("b.c")(a) + operator.itemgetter(1, 0)([3.0, 4.0])[0] + operator.methodcaller("upper")("a").count("A")
mutations = ["a.b.c = 5.0", "a.b = types.SimpleNamespace(c=6.0)"]

# %% types_made_in_the_call
ks = {"k": 2.0}
def fn(x):
    kind = type("Kind", (), dict(ks))
    space = types.SimpleNamespace(**ks)
    return x * kind.k + space.k
mutations = ["ks['k'] = 5.0"]

# %% deque_and_counter_made_in_the_call
ks = [1.0, 2.0, 2.0]
def fn(x):
    last, counts, groups = collections.deque(ks, maxlen=2), collections.Counter(ks), collections.defaultdict(list)
    for k in ks:
        groups[k].append(k)
    last.appendleft(4.0)
    return x * sum(last) + counts[2.0] + len(groups) + len(groups[9.0])
mutations = ["ks.append(2.0)", "ks[2] = 7.0"]

# %% partial_made_in_the_call
import functools
k = 2.0
def scaled(x, a, b=1.0):
    return x * a + b
def fn(x):
    half = functools.partial(scaled, a=k)
    return half(x) + half(x, b=k) + half.keywords["a"]
mutations = ["k = 3.0"]

# %% enumerate_of_views
table = {"a": 1.0, "b": 2.0}
def fn(x):
    for i, (name, k) in enumerate(table.items()):
        x = x * k + i
    for k, j in zip(table.values(), reversed(list(table))):
        x = x + k + len(j)
    return x
mutations = ["table['c'] = 3.0", "table['a'] = table.pop('a')", "table.update(a=9.0)"]

# %% nested_views
table = {"a": {"x": 1.0}, "b": {"x": 2.0}}
def fn(x):
    return x * sum(inner["x"] for inner in table.values()) + max(table.items(), key=lambda kv: kv[1]["x"])[1]["x"] + len([*table])
mutations = ["table['a']['x'] = 5.0", "table['c'] = {'x': 7.0}", "del table['a']"]
