# SPDX-License-Identifier: Apache-2.0
"""The changes that test_mutations.py makes between two starts of a program, and the program.

``$`` stands for the number of the case, so that every case has modules of its own.
"""

import typing

DEEP = '''
LIMIT = 2.0
UNREAD = 1
def deep(x, k=1.0, *, bias=0.25):
    return x * LIMIT + k + bias
def never(x):
    return x - 100
'''

HELPER = '''
import collections, dataclasses, enum, functools, os, types
import numpy as np
import torch
import deep$
from deep$ import deep as renamed
from torch import relu as act

SCALE = 1.5
UNREAD = 7
NAMES = ["a", "b"]
TABLE = {"act": torch.relu, "shift": 0.5, "inner": {"on": False}}
ARRAY = np.array([1.0, 2.0])
NUMBER = np.float64(0.5)
Pair = collections.namedtuple("Pair", "left right")
PAIR = Pair(1.0, 2.0)
ORDER = {"p", "q", "r"}

class Mode(enum.Enum):
    FAST = 1
    SLOW = 2
MODE = Mode.FAST

@dataclasses.dataclass
class Settings:
    power: float = 1.0
    label: str = "x"
SETTINGS = Settings()

class Plain:
    FACTOR = 3.0
    UNREAD = 1
    def __init__(self):
        self.offset = 0.125
        self.unread = 1
        self.inner = types.SimpleNamespace(depth=2.0)
    def __mul__(self, x):
        return x * self.offset
    def gain(self):
        return self.inner.depth
    def never(self):
        return 1
PLAIN = Plain()

def make(k):
    def inner(x):
        return x * k
    return inner
triple = make(3.0)
bound = functools.partial(deep$.deep, k=2.0)

def decorate(f):
    @functools.wraps(f)
    def wrapper(x):
        return f(x) + 0.5
    return wrapper
@decorate
def decorated(x):
    return x * 1.25

ACTS = [lambda x: x * 0.75]

def values(x):
    """Reads globals of every kind."""
    # A comment.
    x = x * SCALE + len(NAMES) + TABLE["shift"] + float(ARRAY[1]) + float(NUMBER) + PAIR.right
    if MODE is Mode.FAST:
        x = x + MODE.value
    if TABLE["inner"]["on"]:
        x = x - 1
    if "q" in ORDER:
        x = x + 2
    x = x ** SETTINGS.power + Plain.FACTOR + PLAIN.gain() + (PLAIN * x)
    return act(TABLE["act"](x))

def functions(x):
    x = triple(x) + bound(x) + decorated(x) + renamed(x) + deep$.deep(x)
    for f in ACTS:
        x = f(x)
    def nested(y):
        return y + 0.375
    return nested(x) + sum([v * 2 for v in (1.0, 2.0)])

def surroundings(x):
    if os.environ.get("MODEL_FLAG$") == "1":
        x = x * 2
    if "MODEL_SWITCH$" in os.environ:
        x = x * 3
    return x * float(os.getenv("MODEL_GAIN$", "1.0"))

def unrelated(x):
    return x
'''

NET = '''
import dataclasses, enum
import torch
import helper$

class Config:
    model_type = "toy"
    def __init__(self):
        self.hidden, self.eps, self.path = 4, 0.5, "somewhere"
        self.nested = {"dropout": 0.0, "sizes": [1, 2]}
    def to_dict(self):
        return dict(vars(self))

class Kind(enum.Enum):
    SILU = "silu"
    GELU = "gelu"

class Slotted:
    __slots__ = ("rate", "unread")
    def __init__(self):
        self.rate, self.unread = 0.5, 1

class Mixin:
    def mixed(self, x):
        return x + 0.0625

class Other:
    def mixed(self, x):
        return x + 0.03125

class Base(torch.nn.Module):
    def inherited(self, x):
        return x * 1.0625

class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = 1.0
        self.unread = 1
    def forward(self, x):
        return x * self.gain

class Net(Mixin, Other, Base):
    STEP = 0.125
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 4)
        self.parts = torch.nn.ModuleList([Part(), Part()])
        self.act = torch.nn.SiLU()
        self.norm = torch.nn.LayerNorm(4, eps=1e-5)
        self.config = Config()
        self.kind = Kind.SILU
        self.slotted = Slotted()
        self.curve = lambda x: x * 1.125
        self.curves = [lambda x: x + 0.25]
        self.factors = [1.0, 2.0]
        self.options = {"shift": 0.5}
        self.flag, self.text, self.count, self.kindof = True, "on", 3, torch.float32
        self.tags = {"a", "b", "c"}
        self.name, self.notes = "net", ["unread"]
        self.register_buffer("table", torch.ones(4))
        self.loose = torch.ones(4) * 2
        self.tied = self.linear.weight
    @property
    def slope(self):
        return 0.5
    @staticmethod
    def fixed(x):
        return x + 0.75
    @classmethod
    def classed(cls, x):
        return x + cls.STEP
    def unused(self, x):
        return x
    def attributes(self, x):
        x = x * self.config.eps + self.config.hidden + self.slotted.rate + sum(self.factors) + self.options["shift"]
        x = x + self.count + (1 if self.flag else 0) + (2 if self.text == "on" else 0) + len(self.config.nested["sizes"])
        if self.kind is Kind.SILU:
            x = x * 1.03125
        if "b" in self.tags:
            x = x + 1
        if hasattr(self, "extra"):
            x = x + self.extra
        if self.training:
            x = x * 5
        x = x + getattr(self.config, "ep" + "s")
        return self.curves[0](self.curve(x)).to(self.kindof)
    def forward(self, x, scale=1.0):
        """Does a little of everything."""
        x = self.norm(self.act(self.linear(x))) + self.table + self.loose + self.tied[0]
        for part in self.parts:
            x = part(x)
        x = self.inherited(self.mixed(self.fixed(self.classed(x * self.slope * scale))))
        x = helper$.functions(helper$.values(self.attributes(x)))
        return torch.nn.functional.relu(helper$.surroundings(x))
'''

MAIN = '''
import torch
import net$

def make():
    model = net$.Net().eval()
    return model, (torch.linspace(-1, 2, 8).reshape(2, 4),)
'''

PROGRAM = {"deep$.py": DEEP, "helper$.py": HELPER, "net$.py": NET, "main$.py": MAIN}


class Case(typing.NamedTuple):
    """One kind of change: text edits as (file, old, new), or something done at start."""

    edits: "tuple[tuple[str, str, str], ...]" = ()
    before: str = ""
    environ: "dict[str, str | None]" = {}
    base: "tuple[tuple[str, str, str], ...]" = ()
    """Edits of the program before the first start."""
    base_before: str = ""
    same_answer: bool = False
    """The change matters to a careful reader but not to this answer."""
    moves: bool = False
    """The program runs from another folder afterwards."""


def edit(file: str, old: str, new: str, **more: typing.Any) -> Case:
    return Case(((file, old, new),), **more)


def setup(line: str, **more: typing.Any) -> Case:
    """A statement more in the main program, after the model is made."""
    return Case((("main$.py", "    return model", f"    {line}\n    return model"),), **more)


_CUSTOM = '''
@torch.library.custom_op("mut$::scale", mutates_args=())
def scale(x: torch.Tensor) -> torch.Tensor:
    return x * 2.0
@scale.register_fake
def _(x):
    return torch.empty_like(x)
'''
_USES_CUSTOM = (("net$.py", "class Config:", _CUSTOM + "\nclass Config:"), ("net$.py", "        return torch.nn.functional.relu(",
                                                                             "        x = torch.ops.mut$.scale(x)\n        return torch.nn.functional.relu("))
_LIBRARY = '''
LIB = torch.library.Library("lib$", "DEF")
LIB.define("scale(Tensor x) -> Tensor")
def scale_impl(x):
    return x * 2.0
LIB.impl("scale", scale_impl, "CompositeExplicitAutograd")
'''
_USES_LIBRARY = (("net$.py", "class Config:", _LIBRARY + "\nclass Config:"), ("net$.py", "        return torch.nn.functional.relu(",
                                                                               "        x = torch.ops.lib$.scale(x)\n        return torch.nn.functional.relu("))
_PARAMETRIZED = '''
    class Half(torch.nn.Module):
        def forward(self, w):
            return w * 0.5
    torch.nn.utils.parametrize.register_parametrization(model.linear, "weight", Half())
'''
_HOOK = "model.parts[0].register_forward_hook(lambda module, args, out: out + 15)"

MISSES = {
    # code
    "the body of forward": edit("net$.py", "self.mixed(self.fixed(", "self.fixed(self.mixed(0.5 * "),
    "the body of a helper": edit("helper$.py", "return x * 1.25", "return x * 1.5"),
    "the body of a function two imports away": edit("deep$.py", "x * LIMIT + k", "x * LIMIT - k"),
    "a default argument of forward": edit("net$.py", "scale=1.0", "scale=1.5"),
    "a default argument of a helper": edit("deep$.py", "k=1.0", "k=1.5"),
    "a keyword-only default": edit("deep$.py", "bias=0.25", "bias=0.5"),
    "a decorator removed": edit("helper$.py", "@decorate\n", ""),
    "the body of a decorator": edit("helper$.py", "return f(x) + 0.5", "return f(x) + 0.75"),
    "a lambda in an attribute": edit("net$.py", "x * 1.125", "x * 1.25"),
    "a lambda in a list": edit("net$.py", "[lambda x: x + 0.25]", "[lambda x: x + 0.5]"),
    "a lambda in a global list": edit("helper$.py", "lambda x: x * 0.75", "lambda x: x * 0.875"),
    "a closure cell": edit("helper$.py", "make(3.0)", "make(4.0)"),
    "a bound argument of a partial": edit("helper$.py", "deep$.deep, k=2.0", "deep$.deep, k=3.0"),
    "a nested function": edit("helper$.py", "y + 0.375", "y + 0.5"),
    "a comprehension": edit("helper$.py", "v * 2 for v", "v * 3 for v"),
    "a method of a base class": edit("net$.py", "x * 1.0625", "x * 1.25"),
    "the order of base classes": edit("net$.py", "Net(Mixin, Other, Base)", "Net(Other, Mixin, Base)"),
    "a base class removed": edit("net$.py", "Net(Mixin, Other, Base)", "Net(Other, Base)"),
    "a method that hides one of a base": edit("net$.py", "    def unused", "    def inherited(self, x):\n        return x * 7\n    def unused"),
    "a property": edit("net$.py", "        return 0.5\n", "        return 0.25\n"),
    "a static method": edit("net$.py", "x + 0.75", "x + 0.5"),
    "a class method": edit("net$.py", "x + cls.STEP", "x - cls.STEP"),
    "an operator of a class": edit("helper$.py", "return x * self.offset", "return x + self.offset"),
    "a method of a global object": edit("helper$.py", "return self.inner.depth", "return self.inner.depth * 2"),
    "another function under the same name": edit("helper$.py", "from deep$ import deep as renamed", "from deep$ import never as renamed"),
    "another PyTorch function under the same name": edit("helper$.py", "from torch import relu as act", "from torch import sigmoid as act"),
    "a function in a table": edit("helper$.py", '"act": torch.relu', '"act": torch.tanh'),
    "a builtin that is hidden": edit("helper$.py", "\nSCALE = 1.5", "\nSCALE = 1.5\ndef len(v):\n    return 9"),
    "a function replaced at start": setup("helper$.decorated = lambda x: x * 9", base=(("main$.py", "import net$", "import net$, helper$"),)),
    "a method replaced at start": setup("net$.Net.fixed = staticmethod(lambda x: x * 9)"),
    "forward replaced on the object": setup("model.parts[0].forward = lambda x: x * 9"),
    "forward of a class replaced": setup("net$.Part.forward = lambda self, x: x * 9"),
    "a PyTorch function replaced": setup("torch.nn.functional.relu = lambda x: x * 9"),
    "a PyTorch function no longer replaced": edit("main$.py", "    torch.nn.functional.relu = lambda x: x * 9\n", "",
                                                  base=(("main$.py", "    return model", "    torch.nn.functional.relu = lambda x: x * 9\n    return model"),)),
    "a function that PyTorch calls, replaced": setup("plain = torch.nn.functional.linear; torch.nn.functional.linear = lambda *a: plain(*a) * 9"),
    "forward of a PyTorch class replaced": setup("torch.nn.SiLU.forward = lambda self, x: x * 9"),
    "forward of a PyTorch class no longer replaced": edit("main$.py", "    torch.nn.SiLU.forward = lambda self, x: x * 9\n", "", base=(
        ("main$.py", "    return model", "    torch.nn.SiLU.forward = lambda self, x: x * 9\n    return model"),)),
    "code put into a function": setup("helper$.decorated.__closure__[0].cell_contents.__code__ = (lambda x: x * 9).__code__",
                                      base=(("main$.py", "import net$", "import net$, helper$"),)),
    "defaults put into a function": setup("deep$.deep.__defaults__ = (5.0,)", base=(("main$.py", "import net$", "import net$, deep$"),)),
    "a forward hook": setup(_HOOK),
    "the body of a forward hook": edit("main$.py", "out + 15", "out + 16", base=(("main$.py", "    return model", f"    {_HOOK}\n    return model"),)),
    "a forward pre-hook": setup("model.register_forward_pre_hook(lambda module, args: (args[0] + 17,))"),
    "a parametrization": Case((("main$.py", "    return model", _PARAMETRIZED + "    return model"),)),
    "the body of a parametrization": edit("main$.py", "w * 0.5", "w * 0.75", base=(("main$.py", "    return model", _PARAMETRIZED + "    return model"),)),
    # globals
    "a global number": edit("helper$.py", "\nSCALE = 1.5", "\nSCALE = 2.5"),
    "a global of another module": edit("deep$.py", "LIMIT = 2.0", "LIMIT = 3.0"),
    "an item of a global list": edit("helper$.py", 'NAMES = ["a", "b"]', 'NAMES = ["a", "b", "c"]'),
    "a value of a global dict": edit("helper$.py", '"shift": 0.5, "inner"', '"shift": 0.25, "inner"'),
    "a value of an inner dict": edit("helper$.py", '{"on": False}', '{"on": True}'),
    "a member of a global set": edit("helper$.py", '{"p", "q", "r"}', '{"p", "s", "r"}'),
    "a numpy array": edit("helper$.py", "[1.0, 2.0])\nNUMBER", "[1.0, 2.5])\nNUMBER"),
    "a numpy number": edit("helper$.py", "np.float64(0.5)", "np.float64(0.75)"),
    "a named tuple": edit("helper$.py", "Pair(1.0, 2.0)", "Pair(1.0, 2.5)"),
    "which member of an enum": edit("helper$.py", "MODE = Mode.FAST", "MODE = Mode.SLOW"),
    "the value of an enum's member": edit("helper$.py", "FAST = 1", "FAST = 3"),
    "a field of a global dataclass": edit("helper$.py", "SETTINGS = Settings()", "SETTINGS = Settings(power=2.0)"),
    "a default of a dataclass": edit("helper$.py", "power: float = 1.0", "power: float = 2.0"),
    "an attribute of a class": edit("helper$.py", "FACTOR = 3.0", "FACTOR = 4.0"),
    "an attribute of a global object": edit("helper$.py", "self.offset = 0.125", "self.offset = 0.25"),
    "an attribute of an object inside": edit("helper$.py", "depth=2.0", "depth=4.0"),
    # attributes
    "a number of a submodule": edit("net$.py", "self.gain = 1.0", "self.gain = 1.5"),
    "an integer attribute": edit("net$.py", '"on", 3,', '"on", 4,'),
    "a flag": edit("net$.py", '= True, "on"', '= False, "on"'),
    "a string attribute": edit("net$.py", 'True, "on"', 'True, "off"'),
    "a list attribute": edit("net$.py", "self.factors = [1.0, 2.0]", "self.factors = [1.0, 3.0]"),
    "a dict attribute": edit("net$.py", 'self.options = {"shift": 0.5}', 'self.options = {"shift": 0.75}'),
    "a set attribute": edit("net$.py", '{"a", "b", "c"}', '{"a", "d", "c"}'),
    "an enum attribute": edit("net$.py", "self.kind = Kind.SILU", "self.kind = Kind.GELU"),
    "a dtype attribute": edit("net$.py", "torch.float32\n", "torch.float64\n"),
    "a slot": edit("net$.py", "self.rate, self.unread = 0.5, 1", "self.rate, self.unread = 0.75, 1"),
    "a value of a config": edit("net$.py", '= 4, 0.5, "somewhere"', '= 4, 0.75, "somewhere"'),
    "a list inside a config": edit("net$.py", '"sizes": [1, 2]', '"sizes": [1, 2, 3]'),
    "a class attribute of the model": edit("net$.py", "STEP = 0.125", "STEP = 0.25"),
    "an attribute that was not there": setup("model.extra = 6.0"),
    "training mode": setup("model.train()"),
    "another submodule": edit("net$.py", "torch.nn.SiLU()", "torch.nn.GELU()"),
    "one submodule more": edit("net$.py", "[Part(), Part()]", "[Part(), Part(), Part()]", same_answer=True),
    "an option of a PyTorch module": edit("net$.py", "eps=1e-5", "eps=1e-1"),
    "the shape of a buffer": edit("net$.py", 'register_buffer("table", torch.ones(4))', 'register_buffer("table", torch.ones(2, 1))', same_answer=True),
    "the dtype of a parameter": setup("model.table = model.table.double()"),
    "tied weights untied": edit("net$.py", "self.tied = self.linear.weight", "self.tied = torch.nn.Parameter(torch.ones(4, 4))"),
    # surroundings
    "an environment variable": Case(environ={"MODEL_GAIN$": "2.0"}),
    "an environment variable that is tested": Case(environ={"MODEL_SWITCH$": "x"}),
    "an environment variable that was compared": Case(environ={"MODEL_FLAG$": "1"}),
    "a custom operator's body": edit("net$.py", "return x * 2.0", "return x * 3.0", base=_USES_CUSTOM),
    "a library's Python kernel": edit("net$.py", "return x * 2.0", "return x * 3.0", base=_USES_LIBRARY),
    "inference mode": edit("main$.py", "import net$", "import net$\nmode = torch.inference_mode", same_answer=True),
    "the default dtype": Case(before="torch.set_default_dtype(torch.float64)", base=(
        ("main$.py", "torch.linspace(-1, 2, 8)", "torch.linspace(-1, 2, 8, dtype=torch.float32)"),
        ("net$.py", "        torch.manual_seed(0)", "        torch.manual_seed(0); default = torch.get_default_dtype(); torch.set_default_dtype(torch.float32)"),
        ("net$.py", "        self.name, self.notes", "        torch.set_default_dtype(default)\n        self.name, self.notes"),
        ("net$.py", "self.table + self.loose", "self.table + self.loose + torch.ones(4)"))),
    "deterministic algorithms": Case(before="torch.use_deterministic_algorithms(True)", same_answer=True),
    "the precision of matrix products": Case(before="torch.set_float32_matmul_precision('medium')", same_answer=True),
}

HITS = {
    "nothing": Case(),
    "a comment": edit("helper$.py", "# A comment.", "# Another comment, longer."),
    "a docstring": edit("net$.py", "Does a little of everything.", "Does what it did."),
    "a docstring of a helper": edit("helper$.py", "Reads globals of every kind.", "Reads."),
    "lines that moved": edit("net$.py", "class Config:", "\n\n\nclass Config:"),
    "another function of the file": edit("helper$.py", "def unrelated(x):\n    return x", "def unrelated(x):\n    return x + 1"),
    "a function more in the file": edit("helper$.py", "def unrelated", "def one_more(x):\n    return x\n\ndef unrelated"),
    "a method that does not run": edit("net$.py", "    def unused(self, x):\n        return x", "    def unused(self, x):\n        return x + 1"),
    "a method of another class that does not run": edit("helper$.py", "    def never(self):\n        return 1", "    def never(self):\n        return 2"),
    "a class more": edit("net$.py", "class Mixin:", "class Unused:\n    pass\n\nclass Mixin:"),
    "a global that is not read": edit("helper$.py", "UNREAD = 7", "UNREAD = 8"),
    "a class attribute that is not read": edit("helper$.py", "    UNREAD = 1", "    UNREAD = 2"),
    "an attribute that is not read": edit("net$.py", 'self.name, self.notes = "net"', 'self.name, self.notes = "other"'),
    "an attribute of an object that is not read": edit("helper$.py", "self.unread = 1", "self.unread = 2"),
    "a slot that is not read": edit("net$.py", "self.rate, self.unread = 0.5, 1", "self.rate, self.unread = 0.5, 2"),
    "a path inside a config": edit("net$.py", '"somewhere"', '"elsewhere"'),
    "how attributes are set": edit("net$.py", "self.factors = [1.0, 2.0]", "self.factors = [1.0] + [2.0]"),
    "the values of weights": edit("net$.py", "torch.manual_seed(0)", "torch.manual_seed(1)"),
    "the values of a buffer": edit("net$.py", 'register_buffer("table", torch.ones(4))', 'register_buffer("table", torch.ones(4) * 3)'),
    "the values of the input": edit("main$.py", "torch.linspace(-1, 2, 8)", "torch.linspace(-2, 2, 8)"),
    "the number of threads": Case(before="torch.set_num_threads(1)"),
    "an environment variable that is not read": Case(environ={"MODEL_UNREAD": "1"}),
    "another folder": Case(moves=True),
    "a type hint": edit("helper$.py", "def surroundings(x):", "def surroundings(x: object):"),
    "the main program around the model": edit("main$.py", "def make():", "RUNS = 3\ndef make():"),
    "a comment beside a custom operator": edit("net$.py", "    return x * 2.0", "    # twice\n    return x * 2.0", base=_USES_CUSTOM),
    "a comment beside a lambda": edit("net$.py", "self.curve = lambda", "# a curve\n        self.curve = lambda"),
    "a comment in a hook's file": edit("main$.py", "import net$", "# a comment\nimport net$", base=(("main$.py", "    return model", f"    {_HOOK}\n    return model"),)),
}
