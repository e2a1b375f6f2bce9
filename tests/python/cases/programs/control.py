# SPDX-License-Identifier: Apache-2.0
"""Exceptions, context managers, generators, match: ways through a function."""
import contextlib

import torch


def inputs():
    return (torch.arange(4.0),)


# %% try_except_else_finally
table = {"k": 2.0}
def fn(x):
    try:
        k = table["k"]
    except KeyError:
        k = 7.0
    else:
        k = k + 1
    finally:
        x = x + 1
    return x * k
mutations = ["del table['k']", "table['k'] = 3.0"]

# %% exception_for_the_caller
limit = 10
def fn(x):
    if x.shape[0] > limit:
        raise ValueError(f"at most {limit} rows, found {x.shape[0]}")
    return x * 2
mutations = ["limit = 3", "limit = 2", "limit = 100"]

# %% exception_always
native = None
message = "no"
def fn(x):
    raise RuntimeError(message)
mutations = ["message = 'still no'"]

# %% own_exception_class
native = None
class Bad(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code
code = 3
def fn(x):
    if code > 2:
        raise Bad(code) from KeyError("cause")
    return x * code
mutations = ["code = 4", "code = 1", "code = 5"]

# %% exception_handled_by_type
class Stop(Exception): pass
class Harder(Stop): pass
error = Stop
def check(n):
    if n > 2:
        raise error(n)
def fn(x):
    try:
        check(x.shape[0])
    except Harder as e:
        return x * e.args[0]
    except (Stop, OSError) as e:
        return x + e.args[0]
    return x
mutations = ["error = Harder", "Stop, error = ValueError, Stop"]

# %% assertion
limit = 10
def fn(x):
    assert x.shape[0] < limit, "too long"
    return x * 2
mutations = ["limit = 2", "limit = 20"]

# %% error_of_torch
native = None
def fn(x):
    return x @ other
other = torch.ones(4)
mutations = ["other = torch.ones(5)", "other = torch.full((4,), 2.0)"]

# %% error_of_torch_handled
other = torch.ones(4)
native = None
def fn(x):
    try:
        return x + other
    except RuntimeError:
        return x - 1
mutations = ["other = torch.ones(5)", "other = torch.ones(4) * 3"]

# %% attribute_error_handled
class Box: pass
box = Box()
def fn(x):
    try:
        return x * box.k
    except AttributeError:
        return x - 1
mutations = ["box.k = 3.0", "del box.k", "Box.k = 5.0"]

# %% stop_iteration_handled
ks = [1.0]
def fn(x):
    it = iter(ks)
    try:
        while True:
            x = x + next(it)
    except StopIteration:
        return x * 2
mutations = ["ks.append(5.0)", "ks.clear()"]

# %% nested_finally
order = [1.0, 2.0]
def fn(x):
    for k in order:
        try:
            if k == 2.0:
                continue
            x = x + k
        finally:
            x = x * 2
    return x
mutations = ["order[1] = 3.0", "order.append(2.0)"]

# %% context_manager
class Scaled:
    def __init__(self, k): self.k = k
    def __enter__(self): return self.k
    def __exit__(self, *error): return False
k = 2.0
def fn(x):
    with Scaled(k) as by:
        return x * by
mutations = ["k = 3.0", "Scaled.__enter__ = lambda self: self.k + 10"]

# %% context_manager_that_swallows
class Quiet:
    on = True
    def __enter__(self): return self
    def __exit__(self, kind, value, trace): return self.on and kind is KeyError
quiet, table = Quiet(), {}
native = None
def fn(x):
    with quiet:
        x = x * table["k"]
    return x + 1
mutations = ["table['k'] = 2.0", "del table['k']", "quiet.on = False"]

# %% context_manager_of_a_generator
@contextlib.contextmanager
def scaled(by):
    yield by * GAIN
GAIN = 2.0
def fn(x):
    with scaled(3.0) as k, contextlib.suppress(ValueError), contextlib.nullcontext(1.0) as one:
        x = x * k + one
    return x
mutations = ["GAIN = 5.0"]

# %% context_manager_that_switches_state
class Training:
    def __init__(self, box): self.box = box
    def __enter__(self): self.was, self.box.on = self.box.on, True
    def __exit__(self, *error): self.box.on = self.was
class Box: on = False
box = Box()
native = None
def fn(x):
    with Training(box):
        x = x * 2 if box.on else x
    return x + 1 if box.on else x - 1
mutations = ["box.on = True", "box.on = False"]

# %% exit_stack
def fn(x):
    with contextlib.ExitStack() as stack:
        for k in ks:
            x = x * stack.enter_context(contextlib.nullcontext(k))
    return x
ks = [2.0, 3.0]
mutations = ["ks.append(4.0)"]
native = None

# %% inference_mode_inside
def fn(x):
    with torch.no_grad():
        y = x * 2
    with torch.inference_mode(False):
        return y + k
k = 1.0
mutations = ["k = 2.0"]
native = None

# %% decorated_by_no_grad
@torch.no_grad()
def helper(x):
    return x * k
k = 2.0
def fn(x):
    return helper(x) + 1
mutations = ["k = 3.0"]

# %% generator_function
ks = [1.0, 2.0]
def steps(x):
    for k in ks:
        x = x * k + 1
        yield x
def fn(x):
    total = x
    for y in steps(x):
        total = total + y
    return total
mutations = ["ks.append(3.0)", "ks[0] = 0.5"]

# %% generator_with_send_and_return
gain = 2.0
def worker(x):
    k = yield x
    while k:
        k = yield x * k
    return x * gain
def outer(x):
    result = yield from worker(x)
    yield result
def fn(x):
    g = outer(x)
    a = next(g)
    b = g.send(3.0)
    return a + b + g.send(0)
mutations = ["gain = 5.0"]
native = None

# %% generator_closed_early
log = []
def steps():
    try:
        yield 1.0
        yield 2.0
    finally:
        log.append("closed")
native = None
def fn(x):
    for k in steps():
        return x * k
mutations = ["log.clear()"]

# %% generator_result
ks = [1.0, 2.0]
native = None
def fn(x):
    return (x * k for k in ks)
mutations = ["ks.append(3.0)", "ks[0] = 4.0"]

# %% generator_as_entry
ks = [1.0, 2.0]
native = None
def fn(x):
    for k in ks:
        yield x * k
mutations = ["ks.append(3.0)"]

# %% generator_from_before
def steps():
    k = 1.0
    while True:
        yield k
        k += 1
g = steps()
native = False
def fn(x):
    return x * next(g)
mutations = ["g = steps()"]

# %% generator_expressions
ks = [1.0, -2.0]
def fn(x):
    return x * sum(k for k in ks) + max(abs(k) for k in ks) + (2 if all(k > 0 for k in ks) else 3)
mutations = ["ks[1] = 2.0", "ks.append(9.0)"]

# %% match_values
mode = "add"
def fn(x):
    match mode:
        case "add":
            return x + 1
        case "mul" | "times":
            return x * 2
        case _:
            return x
mutations = ["mode = 'times'", "mode = 3", "mode = 'add'"]

# %% match_sequences
plan = ["scale", 2.0]
def fn(x):
    match plan:
        case ["scale", k]:
            return x * k
        case ["shift", a, *rest] if rest:
            return x + a + len(rest)
        case []:
            return x
        case _:
            return x - 1
mutations = ["plan[1] = 5.0", "plan[:] = ['shift', 1.0, 2.0]", "plan.clear()", "plan = ('scale', 3.0)"]

# %% match_mappings
plan = {"op": "scale", "k": 2.0}
def fn(x):
    match plan:
        case {"op": "scale", "k": float(k)}:
            return x * k
        case {"op": op, **rest}:
            return x + len(op) + len(rest)
    return x
mutations = ["plan['k'] = 5.0", "plan['op'] = 'shift'", "plan['more'] = 1", "plan['k'] = 1"]

# %% match_classes
class Scale:
    __match_args__ = ("k", "b")
    def __init__(self, k, b=0.0): self.k, self.b = k, b
class Shift(Scale): pass
plan = Scale(2.0)
def fn(x):
    match plan:
        case Shift(k):
            return x + k
        case Scale(k, b=0.0):
            return x * k
        case Scale(k, b):
            return x * k + b
    return x
mutations = ["plan.k = 3.0", "plan.b = 1.0", "plan = Shift(4.0)", "plan = None", "plan = Scale(1.0); Scale.__match_args__ = ('b',)"]

# %% while_with_else
limit = 3
def fn(x):
    n = 0
    while n < limit:
        x = x + n
        n += 1
        if n == 5:
            break
    else:
        x = x * 2
    return x
mutations = ["limit = 5", "limit = 0", "limit = 8"]

# %% loop_over_sizes
def fn(x):
    total = x[0]
    for i in range(x.shape[0]):
        total = total + x[i] * i
    return total
size = 4
def inputs():
    return (torch.arange(float(size)),)
mutations = ["size = 6", "size = 2", "size = 4"]

# %% branch_on_shape
size = 4
def fn(x):
    if len(x) > 4:
        return x.sum()
    if x.size(0) == 2:
        return x * 2
    return x
def inputs():
    return (torch.arange(float(size)),)
mutations = ["size = 6", "size = 2", "size = 3", "size = 7"]

# %% branch_on_dtype
dtype = torch.float32
def fn(x):
    return x / 2 if x.is_floating_point() else x // 2
def inputs():
    return (torch.arange(4).to(dtype),)
mutations = ["dtype = torch.int64", "dtype = torch.float64"]

# %% branch_on_values
native = None
top = 3.0
def fn(x):
    return x * 2 if x.max() > 2.5 else x - 1
def inputs():
    return (torch.tensor([1.0, top]),)
mutations = ["top = 2.0", "top = 5.0"]

# %% branch_on_a_scalar_argument
k = 2
def fn(x, n):
    return x * n if n > 1 else x - n
def inputs():
    return (torch.arange(4.0), k)
mutations = ["k = 3", "k = 0", "k = 2.0", "k = True"]

# %% nested_functions_with_nonlocal
def fn(x):
    total = 0
    def add(k):
        nonlocal total
        total += k
        return total
    for k in ks:
        add(k)
    return x * total
ks = [1.0, 2.0]
mutations = ["ks.append(4.0)"]

# %% class_made_in_the_call
k = 2.0
native = None
def fn(x):
    class Local:
        scale = k
        def run(self, x): return x * self.scale
    return Local().run(x)
mutations = ["k = 3.0"]

# %% lambda_made_in_the_call
k = 2.0
def fn(x):
    acts = [lambda v, n=n: v * n * k for n in (1, 2)]
    for act in acts:
        x = act(x) + 1
    return x
mutations = ["k = 3.0"]

# %% coroutine_run_in_the_call
k = 2.0
native = None
async def scaled(x):
    return x * k
def fn(x):
    c = scaled(x)
    try:
        c.send(None)
    except StopIteration as done:
        return done.value
mutations = ["k = 3.0"]

# %% deletion_of_locals
def fn(x):
    y = x * k
    x = y
    del y
    try:
        return y
    except UnboundLocalError:
        return x + 1
k = 2.0
mutations = ["k = 3.0"]
