# SPDX-License-Identifier: Apache-2.0
"""What types made in C hold: arrays, dates, numbers, patterns, and subclasses of theirs."""
import array
import collections
import datetime
import fractions
import math
import re
import types

import torch


def inputs():
    return (torch.arange(3.0),)


# %% numpy_out
import numpy as np
o = np.zeros(3)
def fn(x):
    np.add(o, 1, out=o); return x * float(o[0])
mutations = ['o[0] = 9']
native = None


# %% numpy_at
import numpy as np
o = np.zeros(3)
def fn(x):
    np.add.at(o, [0], 1); return x * float(o.sum())
mutations = ['o[0] = 9']
native = None


# %% numpy_iadd
import numpy as np
o = np.zeros(3)
def fn(x):
    global o
    o += 1; return x * float(o.sum())
mutations = ['o[0] = 9']
native = None


# %% numpy_setitem
import numpy as np
o = np.zeros(3)
def fn(x):
    o[1] = o[1] + 1; return x * float(o.sum())
mutations = ['o[0] = 9']
native = None


# %% numpy_read
import numpy as np
o = np.arange(3.)
def fn(x): return x * float(o.mean()) + o[1] + o.tolist()[2] + len(o) + o.shape[0] + float(np.sqrt(o)[1]) + float((o * 2).max())
mutations = ['o[0] = 9', 'o.resize((2,), refcheck=False)']
native = None


# %% numpy_list
import numpy as np
o = [np.arange(3.), np.arange(2.)]
def fn(x): return x * float(sum(a.sum() for a in o)) + np.array(o[0]).sum().item()
mutations = ['o[0][0] = 9', 'o[1] = np.ones(5)']
native = None


# %% numpy_obj_array
import numpy as np
class A:
    def __init__(s): s.v = [1., 2.]
    def __array__(s, *a, **k): return np.array(s.v)
o = A()
def fn(x): return x * float(np.asarray(o).sum()) + float(np.sqrt(o)[0])
mutations = ['o.v[0] = 9.']
native = None


# %% numpy_scalar_attr
import numpy as np
cfg = {"k": np.float32(2)}
def fn(x): return x * cfg["k"] + float(cfg["k"] * 2)
mutations = ['cfg["k"] = np.float32(3)']
native = None


# %% array_array
o = array.array("i", [1, 2])
def fn(x): return x * o[0] + len(o) + sum(o) + (1 if 2 in o else 0) + (1 if o == array.array("i", [1, 2]) else 0)
mutations = ['o[0] = 5', 'o.append(2)']
native = None


# %% bytearray_
o = bytearray(b"ab")
def fn(x): return x * o[0] + len(o) + sum(o) + o.find(b"b") + (1 if o == b"ab" else 0) + int(o.decode() == "ab")
mutations = ['o[0] = 5', 'o.append(2)']
native = None


# %% memoryview_
b = bytearray(b"ab"); o = memoryview(b)
def fn(x): return x * o[0] + len(o) + sum(o)
mutations = ['b[0] = 5']
native = None


# %% ordered_dict
o = collections.OrderedDict(a=[1], b=[2])
def fn(x): return x * list(o.values())[0][0] + (1 if o == collections.OrderedDict(a=[1], b=[2]) else 0) + next(iter(o)).count("a")
mutations = ['o["a"][0] = 5', 'o["a"][0] = 1; o.move_to_end("a")']
native = None


# %% chainmap
a, b = {"k": 1}, {"k": 2, "j": 3}
o = collections.ChainMap(a, b)
def fn(x): return x * o["k"] + o["j"] + len(o) + sum(o.values())
mutations = ['a["j"] = 5', 'del a["k"]', 'o.maps.append({"z": 1})']
native = None


# %% userdict
o = collections.UserDict(a=1)
def fn(x): return x * o["a"] + len(o) + sum(o.values())
mutations = ['o["b"] = 5', 'o.data["a"] = 4']
native = None


# %% dict_subclass_missing
class M(dict):
    k = 3
    def __missing__(s, key): return s.k
o = M(a=1)
def fn(x): return x * o["a"] + o["zz"]
mutations = ['M.k = 5', 'o["zz"] = 4']
native = None


# %% list_subclass
class L(list):
    def __init__(s, v): super().__init__(v); s.scale = 2
    def __getitem__(s, i): return list.__getitem__(s, i) * s.scale
o = L([1, 2])
def fn(x): return x * o[0] + sum(o) + len(o)
mutations = ['o.scale = 5', 'list.__setitem__(o, 0, 9)', 'o.append(3)']
native = None


# %% int_subclass
class I(int):
    def __new__(cls, v, s): o = int.__new__(cls, v); o.s = s; return o
    def __mul__(s, o): return int(s) * s.s * o
    def __rmul__(s, o): return o * (int(s) * s.s)
o = [I(2, 3)]
def fn(x): return o[0] * 2 + x * o[0].s + int(o[0])
mutations = ['o[0].s = 5', 'o[0] = I(7, 3)']
native = None


# %% str_subclass
class S(str):
    def __len__(s): return s.n
o = S("abc"); o.n = 5
def fn(x): return x * len(o) + o.count("a") + (1 if o == "abc" else 0) + len(o.upper())
mutations = ['o.n = 6']
native = None


# %% float_subclass_config
class F(float): pass
cfg = types.SimpleNamespace(a=F(2.))
def fn(x): return x * cfg.a + math.floor(cfg.a) + (1 if cfg.a > 1 else 0)
mutations = ['cfg.a = F(.5)']
native = None


# %% datetime_
o = [datetime.datetime(2020, 1, 2), datetime.timedelta(days=1)]
def fn(x): return x * o[0].year + (o[0] + o[1]).day + o[1].days + (1 if o[0] > datetime.datetime(2019, 1, 1) else 0)
mutations = ['o[0] = datetime.datetime(2018, 1, 2)', 'o[1] = datetime.timedelta(days=3)']
native = None


# %% fraction
o = [fractions.Fraction(1, 3)]
def fn(x): return x * float(o[0] + 1) + o[0].denominator + round(o[0] * 7)
mutations = ['o[0] = fractions.Fraction(1, 2)']
native = None


# %% regex
p = [re.compile("a+")]
def fn(x): return x * len(p[0].findall("aa b aaa")) + (p[0].match("aab").end()) + len(p[0].sub(lambda m: m.group() * 2, "aa")) 
mutations = ['p[0] = re.compile("b")', 'p[0] = re.compile("A+", re.I)']
native = None
