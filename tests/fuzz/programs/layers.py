# SPDX-License-Identifier: Apache-2.0
"""Where programs keep what they read: the steps from an object to what it holds (see generate.py)."""

import typing


class Layer(typing.NamedTuple):
    """One step. In texts ``$`` is the layer's number, ``{v}`` the inside, ``{e}`` the object."""

    name: str
    define: str
    build: str
    read: str
    write: str = ""
    """A statement that puts something else there; empty where that can't be done."""
    unread: str = ""
    """A statement that changes what nobody reads."""
    rewrite: str = ""
    """A statement that changes the way there: a method, a property, a class."""


LAYERS = [
    Layer("attribute", """
class Box$:
    def __init__(self, v):
        self.v, self.other = v, 0
""", "Box$({v})", "{e}.v", "{e}.v = {v}", "{e}.other = 7", "Box$.v = property(lambda self: {v})"),
    Layer("slot", """
class Slot$:
    __slots__ = ('v', 'other')
    def __init__(self, v):
        self.v, self.other = v, 0
""", "Slot$({v})", "{e}.v", "{e}.v = {v}", "{e}.other = 7"),
    Layer("property", """
class Prop$:
    def __init__(self, v):
        self._v = v
    @property
    def v(self):
        return self._v
""", "Prop$({v})", "{e}.v", "{e}._v = {v}", "{e}.other = 7", "Prop$.v = property(lambda self: {v})"),
    Layer("descriptor", """
class Get$:
    def __get__(self, o, owner=None):
        return o.__dict__['_v']
    def __set__(self, o, v):
        o.__dict__['_v'] = v
class Desc$:
    v = Get$()
    def __init__(self, v):
        self.v = v
""", "Desc$({v})", "{e}.v", "{e}.v = {v}", "", "Get$.__get__ = lambda self, o, owner=None: {v}"),
    Layer("class attribute", """
def class$(v):
    class Class$:
        pass
    Class$.v = v
    return Class$
""", "class$({v})", "{e}.v", "{e}.v = {v}", "{e}.other = 7"),
    Layer("inherited", """
def heir$(v):
    class Base$:
        pass
    class Heir$(Base$):
        pass
    Base$.v = v
    return Heir$()
""", "heir$({v})", "{e}.v", "type({e}).__mro__[1].v = {v}", "type({e}).other = 7", "type({e}).v = {v}"),
    Layer("shadowed", """
def shadow$(v):
    class Shadow$:
        v = 1
    s = Shadow$()
    s.v = v
    return s
""", "shadow$({v})", "{e}.v", "{e}.v = {v}", "type({e}).other = 7"),
    Layer("getattr", """
class Table$:
    def __init__(self, v):
        self.table = {'v': v}
    def __getattr__(self, name):
        if name == 'v':
            return self.table['v']
        raise AttributeError(name)
""", "Table$({v})", "{e}.v", "{e}.table['v'] = {v}", "{e}.table['w'] = 7", "{e}.v = {v}"),
    Layer("getattribute", """
class Every$:
    def __init__(self, v):
        self.v = v
    def __getattribute__(self, name):
        return object.__getattribute__(self, name)
""", "Every$({v})", "{e}.v", "{e}.v = {v}", "", "Every$.__getattribute__ = lambda self, name: {v}"),
    Layer("metaclass", """
def meta$(v):
    class Meta$(type):
        def __getattr__(cls, name):
            if name == 'v':
                return cls.table[0]
            raise AttributeError(name)
    class Of$(metaclass=Meta$):
        table = [v]
    return Of$
""", "meta$({v})", "{e}.v", "{e}.table[0] = {v}", "", "{e}.v = {v}"),
    Layer("method", """
class Meth$:
    def __init__(self, v):
        self.inner = v
    def get(self):
        return self.inner
""", "Meth$({v})", "{e}.get()", "{e}.inner = {v}", "", "Meth$.get = lambda self: {v}"),
    Layer("super", """
class Old$:
    def __init__(self, v):
        self.inner = v
    def get(self):
        return self.inner
class New$(Old$):
    def get(self):
        return super().get()
""", "New$({v})", "{e}.get()", "{e}.inner = {v}", "", "Old$.get = lambda self: {v}"),
    Layer("call", """
class Call$:
    def __init__(self, v):
        self.inner = v
    def __call__(self):
        return self.inner
""", "Call$({v})", "{e}()", "{e}.inner = {v}", "", "Call$.__call__ = lambda self: {v}"),
    Layer("getitem", """
class Item$:
    def __init__(self, v):
        self.items = [v]
    def __getitem__(self, i):
        return self.items[i]
""", "Item$({v})", "{e}[0]", "{e}.items[0] = {v}", "", "Item$.__getitem__ = lambda self, i: {v}"),
    Layer("iter", """
class Iter$:
    def __init__(self, v):
        self.items = [v]
    def __iter__(self):
        return iter(self.items)
""", "Iter$({v})", "list({e})[0]", "{e}.items[0] = {v}", "", "{e}.items.insert(0, {v})"),
    Layer("enter", """
class With$:
    def __init__(self, v):
        self.inner = v
    def __enter__(self):
        return self.inner
    def __exit__(self, *error):
        return False
def entered$(w):
    with w as inner:
        return inner
""", "With$({v})", "entered$({e})", "{e}.inner = {v}"),
    Layer("cached property", """
class Lazy$:
    def __init__(self, v):
        self.base = v
    @functools.cached_property
    def v(self):
        return self.base
def filled$(v):
    lazy = Lazy$(v)
    lazy.v
    return lazy
""", "filled$({v})", "{e}.v", "{e}.v = {v}"),
    Layer("module attribute", """
class Part$(torch.nn.Module):
    def __init__(self, v):
        super().__init__()
        self.v = v
""", "Part$({v})", "{e}.v", "{e}.v = {v}", "{e}.other = 7"),
    Layer("module type", """
def module$(v):
    m = types.ModuleType('module$')
    m.v = v
    return m
""", "module$({v})", "{e}.v", "{e}.v = {v}", "{e}.other = 7"),
    Layer("list", "", "[0.5, {v}]", "{e}[1]", "{e}[1] = {v}", "{e}[0] = 7"),
    Layer("list end", "", "[{v}]", "{e}[-1]", "{e}.append({v})"),
    Layer("tuple", "", "({v}, 0.5)", "{e}[0]"),
    Layer("unpacked", "", "({v}, 0.5)", "(lambda first, *rest: first)(*{e})"),
    Layer("dict", "", "{{'v': {v}, 'other': 0}}", "{e}['v']", "{e}['v'] = {v}", "{e}['other'] = 7"),
    Layer("dict get", "", "{{'v': {v}}}", "{e}.get('v', 1.0)", "{e}['v'] = {v}", "{e}['more'] = 7"),
    Layer("dict by number", "", "{{(1, 'a'): {v}, None: 0}}", "{e}[(1, 'a')]", "{e}.update({{(1, 'a'): {v}}})", "{e}[None] = 7"),
    Layer("OrderedDict", "", "collections.OrderedDict(v={v}, other=0)", "{e}['v']", "{e}['v'] = {v}", "{e}['other'] = 7"),
    Layer("defaultdict", "", "collections.defaultdict(float, v={v})", "{e}['v']", "{e}['v'] = {v}", "{e}['other'] = 7"),
    Layer("ChainMap", "", "collections.ChainMap({{}}, {{'v': {v}}})", "{e}['v']", "{e}.maps[0]['v'] = {v}"),
    Layer("UserDict", "", "collections.UserDict(v={v})", "{e}['v']", "{e}['v'] = {v}"),
    Layer("proxy", "", "types.MappingProxyType({{'v': {v}}})", "{e}['v']"),
    Layer("deque", "", "collections.deque([{v}, 0.5])", "{e}[0]", "{e}[0] = {v}"),
    Layer("namedtuple", """
Pair$ = collections.namedtuple('Pair$', 'v other')
""", "Pair$({v}, 0)", "{e}.v"),
    Layer("dataclass", """
@dataclasses.dataclass
class Data$:
    v: object
    other: int = 0
""", "Data$({v})", "{e}.v", "{e}.v = {v}", "{e}.other = 7"),
    Layer("frozen dataclass", """
@dataclasses.dataclass(frozen=True)
class Ice$:
    v: object
    other: int = 0
""", "Ice$({v})", "{e}.v", "object.__setattr__({e}, 'v', {v})"),
    Layer("post_init", """
@dataclasses.dataclass
class Post$:
    v: object
    w: object = None
    def __post_init__(self):
        self.w = self.v
""", "Post$({v})", "{e}.w", "{e}.w = {v}", "{e}.v = 7"),
    Layer("SimpleNamespace", "", "types.SimpleNamespace(v={v}, other=0)", "{e}.v", "{e}.v = {v}", "{e}.other = 7"),
    Layer("getattr call", """
class Ask$:
    def __init__(self, v):
        self.v = v
""", "Ask$({v})", "getattr({e}, 'v', 1.0)", "{e}.v = {v}", "{e}.other = 7"),
    Layer("vars", """
class Vars$:
    def __init__(self, v):
        self.v = v
""", "Vars$({v})", "vars({e})['v']", "{e}.v = {v}"),
    Layer("attrgetter", """
class Far$:
    def __init__(self, v):
        self.v = v
get$ = operator.attrgetter('v')
""", "Far$({v})", "get$({e})", "{e}.v = {v}"),
    Layer("closure", """
def cell$(v):
    def get():
        return v
    def put(new):
        nonlocal v
        v = new
    get.put = put
    return get
""", "cell$({v})", "{e}()", "{e}.put({v})"),
    Layer("default", """
def default$(v):
    def get(inner=v):
        return inner
    return get
""", "default$({v})", "{e}()", "{e}.__defaults__ = ({v},)", "", "{e}.__code__ = (lambda inner=0: {v}).__code__"),
    Layer("keyword default", """
def keyword$(v):
    def get(*, inner=v):
        return inner
    return get
""", "keyword$({v})", "{e}()", "{e}.__kwdefaults__['inner'] = {v}"),
    Layer("function attribute", """
def held$(v):
    def get():
        return get.v
    get.v = v
    return get
""", "held$({v})", "{e}()", "{e}.v = {v}"),
    Layer("partial", """
def same$(v):
    return v
""", "functools.partial(same$, {v})", "{e}()"),
    Layer("partial keyword", """
def named$(*, v):
    return v
""", "functools.partial(named$, v={v})", "{e}()", "{e}.keywords['v'] = {v}"),
    Layer("generator", """
def steps$(v):
    def steps():
        yield v
    def put(new):
        nonlocal v
        v = new
    steps.put = put
    return steps
""", "steps$({v})", "next({e}())", "{e}.put({v})"),
    Layer("context variable", """
def variable$(v):
    var = contextvars.ContextVar('var$')
    var.set(v)
    return var
""", "variable$({v})", "{e}.get()", "{e}.set({v})"),
    Layer("thread local", """
def local$(v):
    mine = threading.local()
    mine.v = v
    return mine
""", "local$({v})", "{e}.v", "{e}.v = {v}"),
    Layer("weak reference", """
class Kept$:
    all = []
    def __init__(self, v):
        self.v = v
        Kept$.all.append(self)
""", "weakref.ref(Kept$({v}))", "{e}().v", "{e}().v = {v}"),
]
