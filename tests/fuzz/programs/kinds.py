# SPDX-License-Identifier: Apache-2.0
"""What programs keep and what they do with it: kinds of values with the statements that use and change them (see generate.py)."""

import typing


class Kind(typing.NamedTuple):
    """A kind of value. ``{e}`` in texts is an expression that reads it; ``h`` is the tensor that the function computes."""

    name: str
    values: "list[str]"
    uses: "list[str]"
    """Statements of the function, whose ``h`` depends on the value."""
    changes: "list[str]"
    """Statements between calls that change the value in place."""
    writes: "list[str]"
    """Statements by which the function itself changes it; ``{w}`` is a place that can be assigned to."""


def _split(text: str) -> "list[str]":
    """Statements of several lines, apart by empty lines."""
    return text.strip("\n").split("\n\n") if text else []


KINDS = [
    Kind("number",
         ["0.5", "2.0", "3", "-1.0", "1", "2", "np.float64(2.5)"],
         _split("""
h = h * {e}

h = h + {e}

h = {e} - h

if {e} > 1:
    h = h + 1
else:
    h = h * 2 - 1

if {e} == 2.0:
    h = h + 1
else:
    h = h * 2 - 1

if isinstance({e}, int):
    h = h + 1
else:
    h = h * 2 - 1

h = h + math.floor({e})

h = operator.add(h, {e})

h = h + max({e}, 1)

h = h + len(f"{{{e}}}")

h = h + len('%s' % {e})

for _ in range(int(abs({e}))):
    h = h + 1

h = h + sorted([{e}, 1.5])[0]

h = h + sum(map(lambda v: v + {e}, [1.0]))

h = functools.reduce(lambda a, b: a + b, [{e}, {e}], h)

match {e}:
    case 2.0:
        h = h + 2
    case float() | int() as k:
        h = h * k
    case _:
        h = h - 2

h = torch.full_like(h, {e}) + h

h = (lambda y, k={e}: y + k)(h)

h = h + [1.0, 2.0, 3.0][int({e}) % 3]

n = 0
while n < {e}:
    n = n + 1
h = h + n

try:
    h = h + 1 // max({e} - 2, 0)
except ZeroDivisionError:
    h = h * 2

h = h + {{1: 5.0}}.get({e}, 6.0)

h = h + hash(int({e}))

if {e} > 2.4:
    raise ValueError(f"too much: {{{e}}}")
"""),
         [],
         ["{w} = {e} + 1"]),
    Kind("tensor",
         ["torch.full((4,), 2.0)", "torch.tensor(3.0)", "torch.arange(4.0)", "torch.ones(1)", "torch.tensor(2)",
          "torch.full((4,), 2.0, dtype=torch.float64)"],
         _split("""
h = h * {e}

h = torch.where({e} > 1, h, -h)

h = h + {e}.sum()

h = h + {e}.ndim

h = h + {e}.reshape(-1)[-1]

h = h + {e}.numel()

h = torch.cat([h, {e}.reshape(-1)])[-4:]

if {e}.dtype == torch.float32:
    h = h + 1
else:
    h = h * 2 - 1

if {e}.sum() > 4:
    h = h + 1
else:
    h = h * 2 - 1

h = h + torch.stack([h, h + {e}]).mean(0)

h = h + {e}.shape[-1] if {e}.ndim else h

h = h + float({e}.reshape(-1)[0])
"""),
         ["{e}.add_(1)", "{e}.zero_()", "{e}.mul_(-2)", "{e}.data = torch.full((4,), 5.0)"],
         ["{e}.add_(1)", "{e}.copy_({e} * 0.5)"]),
    Kind("list",
         ["[1.0, 2.0]", "[3.0]", "[]", "[2.0, 1.0, 0.5]"],
         _split("""
for v in {e}:
    h = h * 2 + v

h = h + len({e})

h = h + sum({e})

if {e}:
    h = h + 1
else:
    h = h * 2 - 1

if 2.0 in {e}:
    h = h + 1
else:
    h = h * 2 - 1

h = h + sum({e}[:1])

h = h + sum(sorted({e})[:1])

for i, v in enumerate({e}):
    h = h + i * v

for a, b in zip({e}, [1.0, 2.0]):
    h = h * a + b

h = h + sum(v for v in {e} if v > 1)

h = h + len([v for v in {e} if v])

first, *rest = [9.0, *{e}]
h = h + first * len(rest)

match {e}:
    case [a, b]:
        h = h * a + b
    case [a, *rest]:
        h = h - a
    case _:
        h = h + 3

if any(v > 1.5 for v in {e}):
    h = h + 1
else:
    h = h * 2 - 1

for v in reversed({e}):
    h = h * 2 + v

h = h + max({e}, default=0)

if {e} == [1.0, 2.0]:
    h = h + 1
else:
    h = h * 2 - 1

h = h + sum(map(lambda v: v * 2, filter(None, {e})))

h = h + {e}[0]

own = list({e})
own.append(1.0)
h = h + sum(own) * len(own)

h = h + torch.tensor([*{e}, 1.0]).sum()

h = h + {e}.count(2.0)
"""),
         ["{e}.append(4.0)", "{e}.clear()", "{e}.reverse()", "{e}[:] = [5.0]", "{e}.extend([1.0, 2.0])",
          "{e}.insert(0, 0.25)"],
         ["{e}.append(1.0)", "{e}.append(float(len({e})))", "{e}[:1] = [2.0]"]),
    Kind("dict",
         ["{'a': 1.0}", "{'b': 2.0, 'a': 3.0}", "{}", "collections.OrderedDict(a=2.0, c=1.0)"],
         _split("""
for k, v in {e}.items():
    h = h * 2 + v + len(k)

h = h + sum({e}.values())

h = h + len({e})

for k in {e}:
    h = h + len(k)

if 'a' in {e}:
    h = h + 1
else:
    h = h * 2 - 1

h = h + {e}.get('a', 0.5)

for k, v in sorted({e}.items()):
    h = h * 2 + v

own = {{**{e}, 'z': 4.0}}
h = h + sum(own.values())

own = dict({e})
h = h + own.pop('a', 3.0)

if not {e}:
    h = h + 1
else:
    h = h * 2 - 1

try:
    h = h * {e}['a']
except KeyError:
    h = h - 3

match {e}:
    case {{'a': float(v), **rest}}:
        h = h * v + len(rest)
    case _:
        h = h + 1

h = h + len(list({e}.keys()))

h = h + (lambda a=1.0, **rest: a + len(rest))(**{e})
"""),
         ["{e}['c'] = 4.0", "{e}.pop('a', None)", "{e}.update(a=7.0)", "{e}.clear()", "{e}['a'] = {e}.pop('a', 1.0)"],
         ["{e}['n'] = {e}.get('n', 0.0) + 1", "{e}['a'] = 2.0", "{e}.setdefault('z', 1.0)"]),
    Kind("set",
         ["{1, 2}", "{2}", "set()", "frozenset({1, 3})"],
         _split("""
h = h + len({e})

if 1 in {e}:
    h = h + 1
else:
    h = h * 2 - 1

for v in sorted({e}):
    h = h * 2 + v

h = h + len({e} & {{1, 5}})

if {e}:
    h = h + 1
else:
    h = h * 2 - 1

h = h + sum({e})

if {e} >= {{2}}:
    h = h + 1
else:
    h = h * 2 - 1

h = h + max({e}, default=4)
"""),
         ["{e}.add(7)", "{e}.discard(2)", "{e}.clear()"],
         ["{e}.add(5)"]),
    Kind("text",
         ["'ab'", "'relu'", "'x.1'", "''"],
         _split("""
h = h + len({e})

if {e} == 'relu':
    h = h + 1
else:
    h = h * 2 - 1

if {e}.startswith('x'):
    h = h + 1
else:
    h = h * 2 - 1

h = h + len({e}.split('.'))

h = h + len(f"<{{{e}}}>")

h = h + {{'ab': 1.0}}.get({e}, 2.0)

h = getattr(torch, {e}, torch.neg)(h)

match {e}:
    case 'ab' | 'relu':
        h = h + 4
    case '':
        h = h * 3
    case _:
        h = h - 1

for c in {e}:
    h = h + ord(c)

h = h + len({e}.upper().replace('A', 'bb'))
"""),
         [],
         ["{w} = {e} + 'y'"]),
    Kind("function",
         ["torch.relu", "torch.neg", "lambda v: v * 2", "lambda v: v + 1", "functools.partial(torch.add, 1.0)",
          "torch.nn.Tanh()"],
         _split("""
h = {e}(h)

h = list(map({e}, [h]))[0]

h = {e}({e}(h))

h = functools.reduce(lambda a, f: f(a), [{e}, {e}], h)

h = {e}(h) if callable({e}) else h

for f in ({e}, torch.abs):
    h = f(h)
"""),
         [],
         []),
    Kind("flag",
         ["None", "True", "False", "0", "2.0"],
         _split("""
if {e}:
    h = h + 1
else:
    h = h * 2 - 1

if {e} is None:
    h = h + 1
else:
    h = h * 2 - 1

h = h + ({e} or 3)

if not {e}:
    h = h + 1
else:
    h = h * 2 - 1

h = h if {e} is None else h * {e}

if {e} is True:
    h = h + 1
else:
    h = h * 2 - 1

h = h + (2.0 if {e} else 4.0)

if bool({e}) and {e} != 1:
    h = h + 1
else:
    h = h * 2 - 1
"""),
         [],
         ["{w} = not {e}"]),
    Kind("array",
         ["np.array([1.0, 2.0])", "array.array('d', [1.0, 2.0, 3.0])", "bytearray(b'ab')", "np.ones(4, dtype=np.float32)"],
         _split("""
h = h + float({e}[1])

h = h + len({e})

for v in {e}:
    h = h + float(v)

h = h + float(sum({e}))

h = h + torch.from_numpy(np.asarray({e}, dtype=np.float32))[0]

h = h + torch.as_tensor(list({e})).sum()
"""),
         ["{e}[1] = 5", "{e}[0] = 0"],
         ["{e}[0] = 3"]),
    Kind("module",
         ["torch.nn.Linear(4, 4)", "torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())", "torch.nn.LayerNorm(4)",
          "torch.nn.Dropout(0.0)", "torch.nn.ModuleList([torch.nn.Tanh(), torch.nn.Linear(4, 4)])"],
         _split("""
h = {e}(h)

for part in {e}.children():
    h = part(h)

h = {e}[0](h)

if {e}.training:
    h = h + 1
else:
    h = h * 2 - 1

for name, value in sorted({e}.state_dict().items()):
    h = h + value.sum() + len(name)

h = h + len(list({e}.parameters()))
"""),
         ["{e}.eval()", "{e}.weight.data.mul_(2)", "{e}.register_forward_hook(lambda m, i, o: o + 1)",
          "{e}.forward = lambda v: v * 3", "{e}[0] = torch.nn.Sigmoid()", "{e}.append(torch.nn.Identity())", "{e}.bias = None",
          "{e}.weight = torch.nn.Parameter(torch.ones(4, 4))", "{e}.requires_grad_(False)", "{e}.eps = 1.0"],
         ["{e}.eval()"]),
    Kind("rows",
         ["[[2.0, 5.0], [1.0, 9.0]]", "{'a': [2.0], 'b': [1.0, 3.0]}", "([1.0], [4.0, 2.0])", "collections.deque([[3.0], [1.0]])",
          "[types.SimpleNamespace(a=1.0), types.SimpleNamespace(a=2.0)]", "[(1.0, {'a': 2.0}), (1.0, {'a': 3.0})]"],
         _split("""
rows = list({e}.values()) if isinstance({e}, dict) else list({e})
if [1.0] in rows:
    h = h + 1
else:
    h = h * 2 - 1

if {e} == [[2.0, 5.0], [1.0, 9.0]] or {e} == ([1.0], [4.0, 2.0]):
    h = h + 1
else:
    h = h * 2 - 1

for row in sorted({e}.values() if isinstance({e}, dict) else {e}, key=str):
    h = h * 2 + len(str(row))

h = h + len(max({e}.values() if isinstance({e}, dict) else {e}, key=lambda row: len(str(row))).__class__.__name__)

h = h + sum(len(row) for row in {e} if isinstance(row, (list, str)))

h = h + len(max((str(row) for row in {e}), default=''))

rows = map(lambda i: list({e}.values() if isinstance({e}, dict) else {e})[i], [0, 1])
if next(rows) == next(rows):
    h = h + 1
else:
    h = h * 2 - 1

if any([2.0] == row for row in ({e}.values() if isinstance({e}, dict) else {e})):
    h = h + 1
else:
    h = h * 2 - 1

h = h + len(repr({e})) + len(f"{{{e}}}")

def walk(rows):
    yield from rows.values() if isinstance(rows, dict) else rows
h = h + len([row for row in walk({e}) if row]) + list(walk({e})).count([1.0])

h = h + sum(sum((row for row in ({e}.values() if isinstance({e}, dict) else {e}) if isinstance(row, list)), []))

h = h + len('%s' % ({e},)) + len('{{}}'.format({e}))
"""),
         ["next(iter({e}.values() if isinstance({e}, dict) else {e})).append(7.0)", "next(iter({e})).a = 9.0", "{e}[0][1]['a'] = 3.0",
          "{e}[0][0] = 1.0", "{e}['a'][0] = 8.0", "{e}.append([6.0])", "{e}['z'] = [1.0]"],
         ["{e}[0].append(1.0)"]),
    Kind("object",
         ["Own(2.0)", "Own([1.0])", "Sub(3.0)", "Own('ab')"],
         _split("""
if {e}:
    h = h + 1
else:
    h = h * 2 - 1

if {e} == Own(2.0):
    h = h + 1
else:
    h = h * 2 - 1

if Own(3.0) in [{e}, Own(1.0)]:
    h = h + 1
else:
    h = h * 2 - 1

h = h + len(str({e})) + len(f"{{{e}}}")

h = h + len(sorted([{e}, {e}], key=lambda o: str(o.v)))

h = h + sum(map(len, map(str, map(operator.attrgetter('v'), [{e}]))))

if isinstance({e}, Sub):
    h = h + 1
else:
    h = h * 2 - 1

h = h + (2.0 if callable({e}) else 3.0)

h = h + len(type({e}).__name__) + len({e}.__class__.__mro__)

h = h + len(dict({e})) + len(list({e}))

h = h + (lambda **names: len(names))(**{e})

get = {e}.get
h = h + len(str(get()))

h = h + len(str(vars({e}))) + len(str(getattr({e}, 'w', None)))

h = h + {e}.scale
"""),
         ["{e}.v = 9.0", "{e}.v = [1.0, 2.0]", "{e}.v.append(2.0)", "{e}.__class__ = Sub", "{e}.w = 4.0", "Own.__bool__ = lambda self: False",
          "Own.__call__ = lambda self: 0", "Own.scale = 7.0", "{e}.scale = 5.0", "Own.__eq__ = lambda self, other: True",
          "{e}.keys = lambda: ['q', 'r', 's']", "Own.__str__ = lambda self: 'other'", "Own.__iter__ = lambda self: iter('abcd')",
          "Own.__name__ = 'Another'", "Own.__getattribute__ = lambda self, name: 6.0", "Own.__getattr__ = lambda self, name: 6.0",
          "Own.__init__ = lambda self, v: setattr(self, 'v', 8.0)", "Own.__del__ = lambda self: None", "Sub.__bases__ = (Own,)"],
         ["{e}.v = 1.0"]),
    Kind("shared",
         ["[a := types.SimpleNamespace(v=2.0), a]", "[a := collections.deque([2.0]), a]", "[a := functools.partial(max, 2.0, 1.0), a]",
          "[a := bytearray(b'ab'), a]", "[a := (1.0, [2.0]), a]", "[a := Own(2.0), a]", "[a := [2.0], [2.0]]", "[a := (lambda v=2.0: v), a]",
          "[a := re.compile('a'), a]", "[a := {'v': 2.0}.values(), a]", "[a := Own(2.0), Own(2.0)]"],
         _split("""
h = h + float(read({e}[0])) * 2 + float(read({e}[1]))

if {e}[0] is {e}[1]:
    h = h + 1
else:
    h = h * 2 - 1

first, second = {e}
h = h + float(read(second))

if {e}[0] == {e}[1]:
    h = h + 1
else:
    h = h * 2 - 1

h = h + sum(map(float, map(read, {e})))
"""),
         ["{e}[1] = type({e}[1])(v=7.0) if isinstance({e}[1], types.SimpleNamespace) else type({e}[1])({e}[1]) if isinstance({e}[1], (list, tuple, bytearray)) else 7.0",
          "{e}[1] = functools.partial(max, 9.0, 1.0)", "{e}[1] = (lambda v=9.0: v)", "{e}[1] = {e}[0]", "{e}[0], {e}[1] = {e}[1], {e}[0]",
          "{e}[1] = collections.deque([9.0])", "{e}[1] = Own(9.0)", "{e}[1] = copy.copy({e}[0])", "{e}[0].append(4.0)", "{e}[1].v = 5.0", "{e}[1][1].append(4.0)"],
         ["kept = {e}[0].v\n{e}[0].v = 6.0\nh = h + float(read({e}[1]))\n{e}[0].v = kept", "{e}[0].append(6.0)\nh = h + len({e}[1])\n{e}[0].pop()"]),
]

AROUND = _split("""
try:
    {s}
finally:
    h = h + 1

try:
    {s}
except (KeyError, IndexError, AttributeError, TypeError) as e:
    h = h - len(e.args)

with contextlib.suppress(LookupError):
    {s}

for _ in range(2):
    {s}

if h.shape[0] > 2:
    {s}

with torch.no_grad():
    {s}
""")
"""What surrounds statements; ``{s}`` is indented as it stands."""

RESULTS = ["h", "(h, h + 1)", "[h]", "{'y': h, 'n': 3}", "(h, x)", "(h, h)", "h.sum()", "(h, None, 'text')",
            "(h, h[1:])", "Result(h, 2)", "Named(h, 1)", "Plain(h)", "(h, [h, {'h': h}])", "h.shape[0]",
            "collections.OrderedDict(y=h)", "h.reshape(2, 2)"]
RESULT_TYPES = {
    "Result": """
@dataclasses.dataclass
class Result:
    y: object
    n: int = 1
""",
    "Named": """
Named = collections.namedtuple('Named', 'y n')
""",
    "Plain": """
class Plain:
    def __init__(self, y):
        self.y, self.label = y, 'plain'
""",
}

KEPT = [
    ("[]", "{n}.append(h)"),
    ("{}", "{n}['last'] = h"),
    ("collections.deque(maxlen=2)", "{n}.append(h)"),
    ("[0.0]", "{n}[0] = {n}[0] + 1\nh = h + {n}[0]"),
    ("0", "global {n}\n{n} = {n} + 1\nh = h * {n}"),
    ("None", "global {n}\n{n} = h"),
    ("set()", "{n}.add(h.shape[0])"),
    ("torch.zeros(())", "{n}.add_(1)\nh = h + {n}"),
    ("[]", "{n}.append(len({n}))\nh = h + len({n})"),
    ("itertools.count()", "h = h + next({n})"),
    ("iter([1.0, 2.0] * 40)", "h = h + next({n})"),
    ("random.Random(0)", "h = h + {n}.random()"),
    ("itertools.cycle([1.0, 2.0])", "h = h + next({n})"),
    ("types.SimpleNamespace(n=0)", "{n}.n += 1\nh = h + {n}.n"),
    ("types.SimpleNamespace()", "{n}.last = h\nh = {n}.last + 1"),
    ("{}", "h = h + {n}.setdefault(h.shape[0], 2.0)"),
]
"""What a function keeps from call to call under the name ``{n}``: how it begins, and the statements."""

SURROUNDINGS = [
    ("h = torch.relu(h)", ["torch.relu = lambda v: v * 3", "torch.relu = torch.neg"]),
    ("h = F.relu(h - 1)", ["F.relu = lambda v: v * 3", "F.relu = torch.tanh"]),
    ("h = h + math.sqrt(4.0)", ["math.sqrt = lambda v: 7.0"]),
    ("h = operator.truediv(h, 2.0)", ["operator.truediv = operator.sub"]),
    ("h = F.linear(h, torch.ones(4, 4))", ["F.linear = lambda v, w, b=None: v + 1"]),
    ("h = h + divmod(7, 2)[0]", ["builtins.divmod = lambda a, b: (50, 0)"]),
    ("h = h + float(os.environ.get('OWN_GAIN', '1.0'))", ["os.environ['OWN_GAIN'] = '3.0'", "os.environ['OWN_GAIN'] = '5.0'"]),
    ("h = h + ('OWN_FLAG' in os.environ)", ["os.environ['OWN_FLAG'] = ''"]),
    ("h = h * 2 if torch.is_grad_enabled() else h * 3", ["torch.set_grad_enabled(True)"]),
    ("h = h + torch.zeros(4).sum()", ["torch.set_default_dtype(torch.float64)"]),
    ("h = Helper.run(h)", ["Helper.run = staticmethod(lambda v: v - 4)", "Helper.k = 9.0"]),
    ("h = helper(h)", ["helper = torch.neg", "helper.__code__ = (lambda v: v * 8).__code__", "Helper.k = 9.0"]),
    ("h = cached(2) * h", ["cached = functools.lru_cache(lambda n: n * 7.0)"]),
]
"""What a program uses of the world around it, with the statements that change that."""
