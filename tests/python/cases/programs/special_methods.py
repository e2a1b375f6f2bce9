# SPDX-License-Identifier: Apache-2.0
"""Objects that say themselves how they compare, count, iterate, are called and shown."""
import torch


def inputs():
    return (torch.arange(4.0),)


# %% equality
class Box:
    def __init__(self, k): self.k = k
    def __eq__(self, other): return isinstance(other, Box) and self.k == other.k
    __hash__ = None
a, b = Box(1), Box(1)
def fn(x):
    return x * 2 if a == b else x * 3
mutations = ["b.k = 2", "a = Box(2)", "Box.__eq__ = lambda self, other: False"]

# %% ordering
import functools
@functools.total_ordering
class Version:
    def __init__(self, n): self.n = n
    def __eq__(self, other): return self.n == other.n
    def __lt__(self, other): return self.n < other.n
have, need = Version(2), Version(1)
def fn(x):
    return x + 1 if have >= need else x - 1
mutations = ["have.n = 0", "need.n = -1"]

# %% length_and_truth
class Bag:
    def __init__(self): self.items = [1, 2]
    def __len__(self): return len(self.items)
bag = Bag()
def fn(x):
    return x * len(bag) if bag else x - 1
mutations = ["bag.items.append(3)", "bag.items.clear()", "Bag.__bool__ = lambda self: True"]

# %% truth
class Flag:
    on = True
    def __bool__(self): return self.on
flag = Flag()
def fn(x):
    return x + 1 if flag else x - 1
mutations = ["flag.on = False", "Flag.on = True; del flag.on"]

# %% truth_of_a_plain_object
class Flag: pass
flag = Flag()
def fn(x):
    return x + 1 if flag else x - 1
mutations = ["flag = None", "flag = Flag()", "Flag.__len__ = lambda self: 0"]

# %% iteration
class Layers:
    def __init__(self): self.scales = [2.0, 3.0]
    def __iter__(self): return iter(self.scales)
layers = Layers()
def fn(x):
    for k in layers:
        x = x * k + 1
    return x
mutations = ["layers.scales.append(4.0)", "layers.scales = [5.0]", "Layers.__iter__ = lambda self: iter((1.0,))"]

# %% iteration_by_index
class Layers:
    scales = (2.0, 3.0)
    def __getitem__(self, i): return self.scales[i]
layers = Layers()
def fn(x):
    for k in layers:
        x = x * k + 1
    return x
mutations = ["layers.scales = (4.0,)", "Layers.scales = ()", "del layers.scales"]

# %% iterator_object
class Down:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n
START = 3
def fn(x):
    for k in Down(START):
        x = x + k
    return x
mutations = ["START = 5", "START = 0"]

# %% containment
class Allowed:
    names = {"a"}
    def __contains__(self, name): return name in self.names
allowed = Allowed()
def fn(x):
    return x + 1 if "a" in allowed else x - 1
mutations = ["allowed.names.discard('a')", "Allowed.names = {'a', 'b'}", "Allowed.__contains__ = lambda self, n: False"]

# %% subscript
class Table:
    def __init__(self): self.rows = {"k": 2.0}
    def __getitem__(self, key): return self.rows.get(key, 0.5)
table = Table()
def fn(x):
    return x * table["k"] + table["other"]
mutations = ["table.rows['k'] = 3.0", "table.rows['other'] = 4.0"]

# %% arithmetic
class Scale:
    def __init__(self, k): self.k = k
    def __mul__(self, x): return x * self.k
    def __rmul__(self, x): return x * self.k + 1
    def __neg__(self): return Scale(-self.k)
    def __float__(self): return self.k
    def __index__(self): return int(self.k)
s = Scale(2.0)
def fn(x):
    return s * x + 3 * s + (-s) * x + float(s) + [1, 2, 3, 4][s]
mutations = ["s.k = 3.0", "Scale.__mul__ = lambda self, x: x"]

# %% hash_in_a_dict
native = None  # no path names such keys
class Key:
    def __init__(self, n): self.n = n
    def __hash__(self): return hash(self.n)
    def __eq__(self, other): return self.n == other.n
table = {Key(1): 2.0, Key(2): 3.0}
want = Key(1)
def fn(x):
    return x * table[want]
mutations = ["want.n = 2", "table[Key(2)] = 7.0"]

# %% call_of_an_object
class Act:
    def __init__(self): self.slope = 0.5
    def __call__(self, x): return torch.where(x > 1, x, x * self.slope)
act = Act()
def fn(x):
    return act(x)
mutations = ["act.slope = 0.25", "act = torch.relu"]

# %% format_of_an_object
class Named:
    label = "ab"
    def __str__(self): return self.label
    def __repr__(self): return "<" + self.label + ">"
    def __format__(self, spec): return self.label + spec
named = Named()
def fn(x):
    return x * len(f"{named:xyz}{named!r}{named!s}"), str(named)
mutations = ["named.label = 'abcd'"]


# %% special_methods_of_bases_of_classes_made_in_the_call
class B:
    def __init__(self, v):
        self.v = v

    def __lt__(self, other):
        return self.v < other.v

    def __iter__(self):
        return iter([1.0, 2.0])

    def __enter__(self):
        return self.v

    def __exit__(self, *error):
        return True


def fn(x):
    class K(B):
        pass
    with K(2.0) as h:
        x = x * h
    x = x * (2 if K(1.0) else 3) + sorted([K(3.0), K(2.0)])[0].v
    return x * sum(K(0.0))
mutations = ["B.__bool__ = lambda self: False", "B.__lt__ = lambda self, other: self.v > other.v", "B.__iter__ = lambda self: iter([5.0])",
             "B.__enter__ = lambda self: 7.0", "B.__init__ = lambda self, v: setattr(self, 'v', 9.0)"]
