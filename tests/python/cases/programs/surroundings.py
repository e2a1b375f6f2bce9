# SPDX-License-Identifier: Apache-2.0
"""Hidden and shared state: environment, context variables, threads, random numbers, counters, the libraries themselves."""
import contextvars
import itertools
import math
import operator
import os
import random
import threading
import time

import numpy as np
import torch
import torch.nn.functional as F


def inputs():
    return (torch.arange(4.0),)


# %% environment
def fn(x):
    return x * 2 if os.environ.get("OWN_FLAG") == "1" else x * 3
mutations = ["os.environ['OWN_FLAG'] = '1'", "os.environ['OWN_FLAG'] = '0'", "del os.environ['OWN_FLAG']"]
needless = ["os.environ['OWN_OTHER'] = '1'"]

# %% environment_in_other_words
def fn(x):
    k = float(os.getenv("OWN_GAIN", "1.0"))
    try:
        k += float(os.environ["OWN_MORE"])
    except KeyError:
        pass
    return x * k + ("OWN_FLAG" in os.environ)
mutations = ["os.environ['OWN_GAIN'] = '4.0'", "os.environ['OWN_MORE'] = '2.0'", "os.environ['OWN_FLAG'] = ''", "os.environ.pop('OWN_MORE')"]

# %% environment_of_the_process
native = None
def fn(x):
    return x * len([name for name in os.environ if name.startswith("OWN_")])
mutations = ["os.environ['OWN_A'] = '1'", "os.environ['OWN_B'] = '1'"]

# %% environment_written
native = None
def fn(x):
    os.environ["OWN_SEEN"] = str(int(os.environ.get("OWN_SEEN", "0")) + 1)
    return x * int(os.environ["OWN_SEEN"])
mutations = ["os.environ['OWN_SEEN'] = '7'"]

# %% working_directory
native = None
def fn(x):
    return x * os.getcwd().count("o"), os.path.exists("no_such_file")
mutations = ["os.makedirs('ooo', exist_ok=True); os.chdir('ooo')", "open('no_such_file', 'w').close()", "os.remove('no_such_file')"]

# %% context_variable
gain = contextvars.ContextVar("gain", default=2.0)
def fn(x):
    return x * gain.get()
mutations = ["gain.set(3.0)", "gain.set(4.0)"]

# %% context_variable_set_in_the_call
gain = contextvars.ContextVar("gain", default=2.0)
native = None
def fn(x):
    token = gain.set(gain.get() + 1)
    y = x * gain.get()
    gain.reset(token)
    return y
mutations = ["gain.set(5.0)"]

# %% context_variable_that_counts
gain = contextvars.ContextVar("gain", default=0)
native = None
def fn(x):
    gain.set(gain.get() + 1)
    return x * gain.get()
mutations = ["gain.set(10)"]

# %% thread_local
state = threading.local()
state.k = 2.0
native = None
def fn(x):
    return x * state.k
mutations = ["state.k = 3.0", "del state.k; state.k = 4.0"]

# %% thread_local_with_default
state = threading.local()
native = None
def fn(x):
    return x * getattr(state, "k", 1.0)
mutations = ["state.k = 3.0", "del state.k"]

# %% lock_around_state
lock, table = threading.Lock(), {"k": 2.0}
native = None
def fn(x):
    with lock:
        return x * table["k"]
mutations = ["table['k'] = 3.0"]

# %% random_module
native = False
def fn(x):
    return x * random.randint(1, 1000)
mutations = ["random.seed(5)"]

# %% random_instance
rng = random.Random(3)
native = False
def fn(x):
    return x * rng.random()
mutations = ["rng.seed(3)"]

# %% random_choice_and_shuffle
rng = random.Random(3)
native = False
def fn(x):
    order = [0, 1, 2, 3]
    rng.shuffle(order)
    return x[order] * rng.choice([1.0, 2.0, 3.0])
mutations = ["rng = random.Random(9)"]

# %% random_of_numpy
rng = np.random.default_rng(3)
native = False
def fn(x):
    return x * float(rng.random()) + float(np.random.rand())
mutations = ["rng = np.random.default_rng(1)", "np.random.seed(4)"]

# %% random_of_torch
native = None
def fn(x):
    return x + torch.rand(4)
mutations = ["torch.manual_seed(5)"]

# %% random_of_torch_generator
generator = torch.Generator().manual_seed(3)
native = None
def fn(x):
    return x + torch.rand(4, generator=generator)
mutations = ["generator.manual_seed(9)"]

# %% seed_in_the_call
native = None
seed = 3
def fn(x):
    torch.manual_seed(seed)
    return x + torch.rand(4)
mutations = ["seed = 4"]

# %% counter_of_itertools
ids = itertools.count(1)
native = False
def fn(x):
    return x * next(ids)
mutations = ["ids = itertools.count(50)"]

# %% cycle_of_itertools
turns = itertools.cycle([1.0, 2.0, 3.0])
native = False
def fn(x):
    return x * next(turns)
mutations = ["turns = itertools.cycle([7.0, 8.0])"]

# %% clock
native = None
start = time.time()
def fn(x):
    waited = time.perf_counter() - start
    return x * 2 if waited > -1e12 else x
mutations = ["start = 0.0"]

# %% clock_for_printing
native = None
def fn(x):
    before = time.perf_counter()
    y = x * 2
    print("took", time.perf_counter() - before)
    return y

# %% printing
native = None
def fn(x):
    print("called with", tuple(x.shape))
    return x * 2

# %% logging
import logging
log = logging.getLogger("own")
native = None
def fn(x):
    log.debug("shape %s", x.shape)
    if log.isEnabledFor(logging.INFO):
        x = x + 1
    return x * 2
mutations = ["log.setLevel(logging.INFO)", "log.setLevel(logging.WARNING)"]

# %% warnings
import warnings
native = None
def fn(x):
    warnings.warn("slow")
    return x * 2

# %% file_read
native = None
open("own_gain.txt", "w").write("2.0")
def fn(x):
    with open("own_gain.txt") as file:
        return x * float(file.read())
mutations = ["open('own_gain.txt', 'w').write('3.0')"]

# %% text_buffer_written
import io
out = io.StringIO()
native = None
def fn(x):
    out.write("called;")
    return x * len(out.getvalue())
mutations = ["out.write('more')"]

# %% identity_of_objects
native = None
a = [1.0]
def fn(x):
    return x * 2 if id(a) == _known else x * 3
_known = id(a)
mutations = ["a = [1.0]", "_known = id(a)"]

# %% unique_names
import uuid
native = False
seen = []
def fn(x):
    seen.append(len(str(uuid.uuid4())))
    return x * seen[-1] + len(seen)

# %% function_of_math_replaced
def fn(x):
    return x * math.sqrt(4.0)
mutations = ["math.sqrt = lambda v: 10.0", "math.sqrt = lambda v: v"]

# %% function_of_operator_replaced
def fn(x):
    return operator.truediv(x, 2.0)
mutations = ["operator.truediv = lambda a, b: a - b"]

# %% functional_replaced
def fn(x):
    return F.relu(x - 1)
mutations = ["F.relu = lambda v: v * 5", "F.relu = torch.neg"]

# %% functional_replaced_under_a_module
net = torch.nn.Linear(4, 2).eval()
def fn(x):
    return net(x)
mutations = ["keep = F.linear; F.linear = lambda i, w, b=None: keep(i, w, b) + 100", "F.linear = keep"]

# %% torch_function_replaced
def fn(x):
    return torch.exp(x)
mutations = ["torch.exp = lambda v: v * 2"]

# %% tensor_method_replaced
native = None
def fn(x):
    return x.double_me() if hasattr(x, "double_me") else x
mutations = ["torch.Tensor.double_me = lambda self: self * 2", "torch.Tensor.double_me = lambda self: self * 3", "del torch.Tensor.double_me"]

# %% module_method_replaced
net = torch.nn.Sequential(torch.nn.ReLU())
def fn(x):
    return net(x - 1)
mutations = ["torch.nn.ReLU.forward = lambda self, v: v * 5", "torch.nn.Sequential.forward = lambda self, v: v"]

# %% builtin_replaced
import builtins
def fn(x):
    return x * divmod(7, 2)[0]
mutations = ["keep = builtins.divmod; builtins.divmod = lambda a, b: (50, 0)", "builtins.divmod = keep"]

# %% library_constant_replaced
def fn(x):
    return x * math.pi
mutations = ["math.pi = 3.0"]

# %% default_device_and_threads
native = None
def fn(x):
    return x * torch.get_num_threads()
mutations = ["torch.set_num_threads(2)", "torch.set_num_threads(1)"]

# %% deterministic_mode
native = None
def fn(x):
    return x + torch.are_deterministic_algorithms_enabled()
mutations = ["torch.use_deterministic_algorithms(True)", "torch.use_deterministic_algorithms(False)"]

# %% default_dtype_read
def fn(x):
    return x + (torch.get_default_dtype() == torch.float32)
mutations = ["torch.set_default_dtype(torch.float64)", "torch.set_default_dtype(torch.float32)"]

# %% module_list_of_the_interpreter
import sys
native = None
def fn(x):
    return x * 2 if "own_plugin" in sys.modules else x * 3
mutations = ["import types; sys.modules['own_plugin'] = types.ModuleType('own_plugin')", "del sys.modules['own_plugin']"]

# %% arguments_of_the_interpreter
import sys
native = None
def fn(x):
    return x * len(sys.argv) + sys.version_info[0]
mutations = ["sys.argv = ['a', 'b', 'c']", "sys.argv.append('d')"]

# %% recursion_limit_and_frames
import sys
native = None
def fn(x):
    return x * len(sys._getframe().f_code.co_name)

# %% garbage_collector
import gc
native = None
def fn(x):
    gc.collect()
    return x * (2 if gc.isenabled() else 3)
mutations = ["gc.disable()", "gc.enable()"]

# %% decimal_context
import decimal
native = None
def fn(x):
    return x * float(decimal.Decimal(1) / decimal.Decimal(3))
mutations = ["decimal.getcontext().prec = 2", "decimal.getcontext().prec = 28"]

# %% hash_of_a_text
native = None
def fn(x):
    return x * (hash("a text") % 7 + "b".__hash__() % 5)

# %% order_of_a_set
native = None
names = {"alpha", "beta", "gamma", "delta"}
def fn(x):
    for number, name in enumerate(names):
        x = x + number * ord(name[0])
    return x
mutations = ["names.add('epsilon')", "names = frozenset(['p', 'q', 'r', 's'])"]

# %% order_of_sets_made_by_the_run
native = None
letters = ["p", "q", "r", "s"]
def fn(x):
    found = set(letters)
    found.add("t")
    return x * ord("".join(found)[0]) + ord(list({"a", "b", "c", "d"})[0]) * ord(found.pop())
mutations = ["letters.append('z')"]

# %% order_of_numbers
numbers = {8, 0}
def fn(x):
    for number in numbers:
        x = x * 2 + number
    return x
mutations = ["numbers.add(16)", "numbers = {0, 8}"]

# %% membership_has_no_order
names = {"alpha", "beta", "gamma", "delta"}
def fn(x):
    return x * 2 if "beta" in names and names & {"alpha", "zeta"} else x * len(names)
mutations = ["names.remove('beta')", "names = {'beta', 'zeta'}"]
needless = ["names = {'delta', 'gamma', 'beta', 'alpha'}"]

# %% text_that_says_an_address
native = False
class Key:
    pass
key = Key()
def fn(x):
    return x * bool(f"{key}")

# %% text_of_parts_that_says_an_address
native = False
class Key:
    pass
keys = [Key()]
def fn(x):
    return x * bool(repr(keys))

# %% text_of_a_function
native = False
def fn(x):
    return x * bool("%s" % (fn,))

# %% format_that_reads_attributes
native = None
class Box:
    kind = "a"
box = Box()
def fn(x):
    return x * len("{0.kind}".format(box)) + len("{v:{w.kind}}{{.}}".format_map({"v": 1, "w": spec}))
class Spec:
    kind = "3"
spec = Spec()
mutations = ["box.kind = 'long'", "spec.kind = '7'"]

# %% format_of_numbers
shift = 1.25
def fn(x):
    return x * len("{:.3f} {{0.k}}".format(shift))
mutations = ["shift = 1000.5"]

# %% place_of_the_code
native = None
def fn(x):
    return x * (sum(map(ord, fn.__code__.co_filename)) % 97) + fn.__code__.co_firstlineno

# %% thread_of_the_call
import threading
native = None
def fn(x):
    return x * (threading.get_ident() % 97)
