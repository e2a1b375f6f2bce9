# SPDX-License-Identifier: Apache-2.0
"""What is raised and what is caught, by classes that change."""

import torch


def inputs():
    return (torch.arange(3.0),)


# %% t12
class E1(Exception): pass
class E2(Exception): pass
e = E1()
def fn(x):
    try: raise e
    except E1: return x - 1
    except E2: return x + 50
mutations = ['e.__class__ = E2']
native = None


# %% u25
class E1(Exception): pass
class E2(E1): pass
e = E1()
def fn(x):
    try: raise e
    except E2: return x * 5
    except E1: return x + 1
mutations = ['e.__class__ = E2', 'e.__class__ = E1']
native = None


# %% u26
class E1(Exception): pass
class E2(Exception): pass
class S:
    err = E1()
    def go(s): raise s.err
s = S()
def fn(x):
    try: s.go()
    except E1: return x + 1
    except E2: return x + 50
mutations = ['s.err.__class__ = E2']
native = None


# %% e2
E = (KeyError,)
d = {"a": 1.}
def fn(x):
    try: return x * d["b"]
    except E: return x - 1
    except Exception: return x + 50
mutations = ['E = (ValueError,)']
native = None


# %% e9
C = (ValueError,)
d = {"a": 1.}
def fn(x):
    try: return x * d["a"]
    except C: return x - 1
    except Exception: return x + 50
mutations = ['del d["a"]', 'C = (KeyError,)', 'C = (ValueError,)', 'C = KeyError']
native = None


# %% e4
class C: errs = (KeyError,)
c = C()
def fn(x):
    try: raise KeyError
    except c.errs: return x - 1
    except Exception: return x + 50
mutations = ['C.errs = (ValueError,)', 'c.errs = (KeyError,)']
native = None


# %% e8
C = (ValueError, (KeyError,))
def fn(x):
    try: raise KeyError
    except C[1]: return x - 1
    except Exception: return x + 50
mutations = ['C = (ValueError, (OSError,))']
native = None


# %% e3
E = (KeyError, ValueError)
def fn(x):
    try: raise KeyError
    except E: return x - 1
    except Exception: return x + 50
mutations = ['E = (ValueError, OSError)', 'E = (ValueError, LookupError)']
native = None


# %% q8
def run(fn, catch=(ValueError,)):
    try: return fn()
    except catch: return 2
    except Exception: return 3
def bad(): raise ValueError
def fn(x): return x * run(bad)
mutations = ['run.__defaults__ = ((KeyError,),)']
native = None


# %% q9
def mk(catch):
    def run(fn):
        try: return fn()
        except catch: return 2
        except Exception: return 3
    return run
run = mk((ValueError,))
def bad(): raise ValueError
def fn(x): return x * run(bad)
mutations = ['run.__closure__[0].cell_contents = (KeyError,)']
native = None


# %% q7
class A(Exception): pass
ERR = {"retry": (A,), "fatal": (ValueError,)}
def fn(x):
    try: raise A()
    except ERR["fatal"]: return x * 0
    except ERR["retry"]: return x * 2
mutations = ['ERR["fatal"] = (A,)', 'ERR["fatal"] = (ValueError, KeyError); ERR["retry"] = (KeyError, A)', 'ERR["retry"] = ()']
native = None


# %% q10
C = (ValueError,)
def bad(): return 1
def fn(x):
    try: return x * bad()
    except C: return x * 7
mutations = ['C = 3', 'bad.__code__ = (lambda: 1 / 0).__code__', 'C = (ZeroDivisionError,)', 'C = (ValueError,)']
native = None


# %% e7
class E1(Exception): pass
class E2(Exception): pass
class E3(E1): pass
C = (E1,)
def fn(x):
    try: raise E3
    except C: return x - 1
    except Exception: return x + 50
mutations = ['C = (E2,)', 'E3.__bases__ = (E2,)', 'C = (E1,)']
native = None


# %% t8
class E1(Exception): pass
class E2(Exception): pass
class E3(E1): pass
def fn(x):
    try: raise E3
    except E1: return x - 1
    except Exception: return x + 50
mutations = ['E3.__bases__ = (E2,)', 'E3.__bases__ = (E1,)']
native = None


# %% t9
class E1(Exception): pass
class E2(Exception): pass
class E3(E1): pass
def fn(x):
    try: raise E3
    except (E1, ValueError): return x - 1
    except Exception: return x + 50
mutations = ['E3.__bases__ = (E2,)', 'E3.__bases__ = (E1,)']
native = None


# %% v22
class E1(Exception): pass
class E2(Exception): pass
class E3(E1): pass
def fn(x):
    try: raise E3()
    except E2: return x * 2
    except E1: return x * 3
mutations = ['E3.__bases__ = (E2,)', 'E3.__bases__ = (E2, E1)']
native = None


# %% v25
class E1(Exception): v = 3
def fn(x):
    try: raise E1
    except Exception as e: return x * e.v
mutations = ['E1.__init__ = lambda s: setattr(s, "v", 10)']
native = None


# %% v24
class E1(Exception): v = 3
def fn(x):
    try: raise E1
    except Exception as e: return x * getattr(e, "v", 9)
mutations = ['E1.__new__ = lambda c: KeyError()']
native = None


# %% q16
class E(Exception): w = 1
def fn(x):
    try: raise E
    except Exception as e: return x * e.w
mutations = ['E.__new__ = lambda c: Exception.__new__(type("Z", (E,), {"w": 5}))']
native = None


# %% u27
class E1(Exception):
    def __init__(s): s.v = 1
def fn(x):
    try: raise E1
    except Exception as e: return x + e.v
mutations = ['E1.__init__ = lambda s: setattr(s, "v", 10)', 'E1.__new__ = lambda c: ValueError()']
native = None


# %% q15
class B(Exception): pass
class B2(Exception):
    def __init__(s): s.w = 10
class E(B): w = 1
def fn(x):
    try: raise E
    except Exception as e: return x * e.w
mutations = ['E.__bases__ = (B2,)']
native = None
