# SPDX-License-Identifier: Apache-2.0
"""Objects: attributes, slots, properties, descriptors, classes."""
import torch


def inputs():
    return (torch.arange(4.0),)


# %% attribute
class Box:
    def __init__(self):
        self.k, self.unread = 2.0, 0
box = Box()
def fn(x):
    return x * box.k
mutations = ["box.k = 3.0", "box = Box(); box.k = 4.0", "box.__dict__['k'] = 5.0", "del box.k; Box.k = 6.0"]
needless = ["box.unread = 1", "box.more = 1", "Box.more = 1"]

# %% slots
class Box:
    __slots__ = ("k", "unread")
    def __init__(self):
        self.k, self.unread = 2.0, 0
box = Box()
def fn(x):
    return x * box.k
mutations = ["box.k = 3.0", "Box.k.__set__(box, 4.0)"]
needless = ["box.unread = 5"]

# %% slots_and_dict
class Base:
    __slots__ = ("a",)
class Box(Base):
    def __init__(self):
        self.a, self.b = 2.0, 3.0
box = Box()
def fn(x):
    return x * box.a + box.b
mutations = ["box.a = 4.0", "box.b = 5.0"]

# %% missing_slot
class Box:
    __slots__ = ("k",)
box = Box()
def fn(x):
    return x * getattr(box, "k", 1.0)
mutations = ["box.k = 3.0", "del box.k"]

# %% class_attribute
class Box:
    k, unread = 2.0, 0
box = Box()
def fn(x):
    return x * box.k
mutations = ["Box.k = 3.0", "box.k = 4.0", "del box.k"]
needless = ["Box.unread = 1", "box.unread = 1"]

# %% class_attribute_by_class
class Box:
    k = 2.0
def fn(x):
    return x * Box.k
mutations = ["Box.k = 3.0", "class Box:\n    k = 5.0"]

# %% inherited_class_attribute
class A: k = 2.0
class B(A): pass
class C(B): pass
c = C()
def fn(x):
    return x * c.k
mutations = ["A.k = 3.0", "B.k = 4.0", "C.k = 5.0", "del C.k"]

# %% changed_bases
class A:
    def k(self): return 2.0
class B:
    def k(self): return 5.0
class C(A): pass
c = C()
def fn(x):
    return x * c.k()
mutations = ["C.__bases__ = (B,)"]

# %% changed_class
class A: k = 2.0
class B: k = 5.0
box = A()
def fn(x):
    return x * box.k
mutations = ["box.__class__ = B"]

# %% method
class Box:
    k = 2.0
    def scale(self, x):
        return x * self.k
box = Box()
def fn(x):
    return box.scale(x)
mutations = ["box.k = 3.0", "Box.scale = lambda self, x: x - self.k", "box.scale = lambda x: x + 100", "del box.scale"]

# %% bound_method_as_entry
class Box:
    def __init__(self):
        self.k = 2.0
    def scale(self, x):
        return x * self.k
box = Box()
fn = box.scale
mutations = ["box.k = 3.0", "box.k = torch.full((4,), 2.0)"]
needless = ["box.unread = 1"]

# %% callable_object_as_entry
class Box:
    def __init__(self):
        self.k = 2.0
    def __call__(self, x):
        return x * self.k
fn = Box()
mutations = ["fn.k = 3.0", "Box.__call__ = lambda self, x: x + self.k"]

# %% super_calls
class A:
    def __init__(self): self.k = 2.0
    def run(self, x): return x * self.k
class B(A):
    def run(self, x): return super().run(x) + 1
class C(B):
    def run(self, x): return super().run(x) * 2
c = C()
def fn(x):
    return c.run(x)
mutations = ["c.k = 3.0", "A.run = lambda self, x: x", "B.run = A.run"]

# %% multiple_inheritance
class Base:
    def run(self, x): return x + 1
class Left(Base):
    def run(self, x): return super().run(x) * 2
class Right(Base):
    def run(self, x): return super().run(x) * 3
class Both(Left, Right): pass
both = Both()
def fn(x):
    return both.run(x)
mutations = ["Right.run = lambda self, x: x", "Both.__bases__ = (Right, Left)"]

# %% class_and_static_methods
class Box:
    k = 2.0
    @classmethod
    def scale(cls, x): return x * cls.k
    @staticmethod
    def shift(x): return x + 1
def fn(x):
    return Box.shift(Box.scale(x))
mutations = ["Box.k = 3.0", "Box.shift = staticmethod(lambda x: x - 1)", "Box.scale = classmethod(lambda cls, x: x)"]

# %% property
class Box:
    def __init__(self): self._k = 2.0
    @property
    def k(self): return self._k + 1
box = Box()
def fn(x):
    return x * box.k
mutations = ["box._k = 5.0", "Box.k = property(lambda self: 10.0)", "Box.k = 4.0"]

# %% property_with_setter
class Box:
    def __init__(self): self._k = 2.0
    @property
    def k(self): return self._k
    @k.setter
    def k(self, value): self._k = value * 2
box = Box()
def fn(x):
    return x * box.k
mutations = ["box.k = 5.0", "box.k = 6"]

# %% property_of_a_slot
class Box:
    __slots__ = ("_k",)
    def __init__(self): self._k = 2.0
    k = property(lambda self: self._k * 2)
box = Box()
def fn(x):
    return x * box.k
mutations = ["box._k = 5.0"]

# %% cached_property
import functools
class Box:
    def __init__(self): self.base = 2.0
    @functools.cached_property
    def k(self): return self.base * 3
box = Box()
box.k
def fn(x):
    return x * box.k
mutations = ["box.base = 5.0", "del box.k; box.k", "box.k = 1.0"]

# %% cached_property_filled_by_the_call
import functools
native = None
class Box:
    def __init__(self): self.base = 2.0
    @functools.cached_property
    def k(self): return self.base * 3
box = Box()
def fn(x):
    return x * box.k
mutations = ["del box.k", "box.base = 5.0", "del box.k"]

# %% data_descriptor
class Scaled:
    def __init__(self, by): self.by = by
    def __set_name__(self, owner, name): self.name = "_" + name
    def __get__(self, obj, owner=None): return getattr(obj, self.name) * self.by
    def __set__(self, obj, value): setattr(obj, self.name, value)
class Box:
    k = Scaled(2.0)
    def __init__(self): self.k = 3.0
box = Box()
def fn(x):
    return x * box.k
mutations = ["box.k = 4.0", "Box.__dict__['k'].by = 5.0", "box._k = 1.0", "box.__dict__['k'] = 99.0"]

# %% plain_descriptor
class Get:
    factor = 2.0
    def __get__(self, obj, owner=None): return self.factor
class Box: k = Get()
box = Box()
def fn(x):
    return x * box.k
mutations = ["Get.factor = 3.0", "box.k = 4.0", "Box.k = 7.0", "del box.k"]

# %% getattr_method
class Box:
    def __init__(self): self.table = {"k": 2.0}
    def __getattr__(self, name):
        if name in self.__dict__["table"]:
            return self.__dict__["table"][name]
        raise AttributeError(name)
box = Box()
def fn(x):
    return x * box.k
mutations = ["box.table['k'] = 3.0", "box.k = 4.0", "del box.k; box.table = {'k': 8.0}"]

# %% getattribute_method
class Box:
    def __init__(self): self.k = 2.0
    def __getattribute__(self, name):
        value = object.__getattribute__(self, name)
        return value + GAIN if name == "k" else value
GAIN = 1.0
box = Box()
def fn(x):
    return x * box.k
mutations = ["box.k = 3.0", "GAIN = 5.0"]

# %% getattr_of_a_class
class Meta(type):
    table = {"k": 2.0}
    def __getattr__(cls, name):
        if name in Meta.table:
            return Meta.table[name]
        raise AttributeError(name)
class Box(metaclass=Meta): pass
def fn(x):
    return x * Box.k
mutations = ["Meta.table['k'] = 3.0", "Box.k = 5.0"]

# %% metaclass_attribute
class Meta(type):
    k = 2.0
    @property
    def twice(cls): return cls.k * 2
class Box(metaclass=Meta): pass
def fn(x):
    return x * Box.k + Box.twice
mutations = ["Meta.k = 3.0", "Box.k = 4.0"]

# %% metaclass_instance_check
class Meta(type):
    accepts = (int,)
    def __instancecheck__(cls, value): return isinstance(value, Meta.accepts)
class Number(metaclass=Meta): pass
value = 1
def fn(x):
    return x * 2 if isinstance(value, Number) else x * 3
mutations = ["value = 'a'", "Meta.accepts = (str,)", "value = 1"]

# %% abstract_base_with_register
import abc
class Shape(abc.ABC): pass
class Square: side = 2.0
square = Square()
native = None
def fn(x):
    return x * square.side if isinstance(square, Shape) else x
mutations = ["Shape.register(Square)", "square.side = 4.0"]

# %% getattr_with_default
class Box: pass
box = Box()
def fn(x):
    return x * getattr(box, "k", 1.0) + hasattr(box, "b")
mutations = ["box.k = 3.0", "box.b = None", "Box.b = 1", "del box.k"]

# %% getattr_with_a_computed_name
class Box:
    left, right = 2.0, 3.0
box, side = Box(), "left"
def fn(x):
    return x * getattr(box, side) + getattr(box, "le" + "ft")
mutations = ["side = 'right'", "box.right = 5.0", "box.left = 7.0"]

# %% vars_of_an_object
class Box:
    def __init__(self): self.a, self.b = 1.0, 2.0
box = Box()
def fn(x):
    for name, value in sorted(vars(box).items()):
        x = x * value + len(name)
    return x
mutations = ["box.a = 4.0", "box.long_name = 3.0", "del box.b"]

# %% dir_of_an_object
class Box: pass
box = Box()
native = None
def fn(x):
    return x * sum(1 for name in dir(box) if not name.startswith("_"))
mutations = ["box.a = 1", "Box.b = 2"]

# %% private_names
class Box:
    def __init__(self): self.__k = 2.0
    def k(self): return self.__k
box = Box()
def fn(x):
    return x * box.k()
mutations = ["box._Box__k = 3.0"]

# %% object_made_in_the_call
class Box:
    unit = 2.0
    def __init__(self, x): self.x = x * self.unit
    def done(self): return self.x + 1
def fn(x):
    return Box(x).done()
mutations = ["Box.unit = 3.0", "Box.__init__ = lambda self, x: setattr(self, 'x', x)"]

# %% singleton_made_in_new
class One:
    _only = None
    def __new__(cls):
        if cls._only is None:
            cls._only = super().__new__(cls)
            cls._only.k = 2.0
        return cls._only
One()
def fn(x):
    return x * One().k
mutations = ["One().k = 3.0", "One._only.k = 4.0"]

# %% observer_list
class Subject:
    def __init__(self): self.steps = []
    def attach(self, f): self.steps.append(f); return f
    def run(self, x):
        for f in self.steps:
            x = f(x)
        return x
subject = Subject()
@subject.attach
def first(x): return x + 1
def fn(x):
    return subject.run(x)
mutations = ["subject.attach(lambda x: x * 3)", "subject.steps.pop(0)"]

# %% fluent_builder
class Pipe:
    def __init__(self, x): self.x = x
    def mul(self, k): self.x = self.x * k; return self
    def add(self, k): self.x = self.x + k; return self
A, B = 2.0, 1.0
def fn(x):
    return Pipe(x).mul(A).add(B).mul(A).x
mutations = ["A = 3.0", "B = -1"]

# %% type_of_an_object
class Fast:
    def run(self, x): return x * 2
class Slow(Fast):
    def run(self, x): return x * 3
worker = Fast()
def fn(x):
    return worker.run(x) if type(worker) is Fast else worker.run(x) + type(worker).__name__.count("S")
mutations = ["worker = Slow()", "worker = Fast()"]

# %% registry_of_subclasses
REGISTRY = {}
class Base:
    def __init_subclass__(cls, **kw):
        super().__init_subclass__(**kw)
        REGISTRY[cls.__name__.lower()] = cls
class Double(Base):
    def __call__(self, x): return x * 2
class Triple(Base):
    def __call__(self, x): return x * 3
name = "double"
def fn(x):
    return REGISTRY[name]()(x)
mutations = ["name = 'triple'", "REGISTRY['triple'] = Double"]

# %% deleted_method
class Box:
    def run(self, x): return x * 2
box = Box()
def fn(x):
    return box.run(x) if hasattr(box, "run") else x
mutations = ["del Box.run"]

# %% weak_reference
import weakref
class Box: k = 2.0
box = Box()
ref = weakref.ref(box)
def fn(x):
    return x * ref().k if ref() is not None else x
mutations = ["box.k = 3.0", "box = None"]
native = None

# %% sizes_of_a_tensor_that_no_operator_reads
beside = torch.tensor(3.0)
def fn(x):
    return x + beside.numel(), x * beside.dim()
mutations = ["beside.data = torch.full((4,), 5.0)", "beside.data = torch.ones(2, 3)"]
