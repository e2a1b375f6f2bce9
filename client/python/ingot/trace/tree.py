# SPDX-License-Identifier: Apache-2.0
"""The structure of results: what a function returned or stored, as JSON, and how to build it again.

Tensors become leaves; containers, named tuples, dataclasses and plain objects keep their class by name, which is looked up,
never imported. An object is built from the state it had at the end, without running code of its class. What occurs twice is
built once.
"""

import collections
import math
import sys
import types
import typing

import torch

from ingot import _native, errors
from ingot.trace import collectives, kinds, paths

Spec = dict[str, typing.Any]
_DEPTH_MAX = 32
_BASES = (object, dict, list, tuple, set, collections.OrderedDict)
"""What a class may be built on: making one runs no other code."""


class Encoder:
    """Encodes what one run made; ``leaves`` collects its tensors in order.

    Objects from before (``path_of``) and tensors of the call (``inputs``) are the same objects in every result; so is what
    occurs twice. For a number of which ``measured`` gives how it is found in a tensor ("sized": its last size, "item": its element)
    the tensor is a leaf.
    """

    def __init__(self, path_of: "typing.Callable[[typing.Any], str | None]", inputs: "typing.Sequence[torch.Tensor]" = (),
                 is_argument: "typing.Callable[[typing.Any], bool]" = lambda value: False,
                 measured: "typing.Callable[[typing.Any], tuple[str, torch.Tensor] | None]" = lambda value: None) -> None:
        self.leaves: "list[torch.Tensor]" = []
        self.given_on: "list[typing.Any]" = []
        self.has_orders = False  # of sets, that is
        """What is there already and is given on as itself."""
        self.touched: typing.Any = None
        """An argument's own container, which only its place among the objects of a call could say."""
        self._path_of, self._is_argument, self._measured = path_of, is_argument, measured
        self._measures: "dict[int, tuple[typing.Any, torch.Tensor, Spec]]" = {}
        self._inputs = {id(tensor): i for i, tensor in reversed(list(enumerate(inputs)))}
        self._numbers: "dict[int, int]" = {}
        self._shared: "dict[int, tuple[typing.Any, Spec]]" = {}
        self._specs: "list[tuple[torch.Tensor, Spec]]" = []

    def found_in_arguments(self, inputs: "typing.Sequence[torch.Tensor]") -> None:
        """Says which tensors of the result the call's objects held: known when all that was used is."""
        known = {id(tensor): i for i, tensor in reversed(list(enumerate(inputs)))}
        for tensor, spec in self._specs:
            if id(tensor) in known:
                spec.pop("p", None)
                spec["input"] = known[id(tensor)]

    def number_measures(self) -> None:
        """Once all is encoded: tensors that stand for numbers are leaves behind all others."""
        for _, tensor, spec in self._measures.values():
            spec["i"] = len(self.leaves)
            self.leaves.append(tensor)

    def find_links(self, owners: "typing.Sequence[torch.Tensor]") -> None:
        """Says which tensors of the result share memory with one of these, or with each other, and what they are to each other for
        autograd: a write to one is a write to the others, and a view of what requires grad requires it too, in every mode."""
        made: "dict[int, tuple[torch.Tensor, Spec]]" = {}
        for tensor, spec in self._specs:
            if "p" in spec or "input" in spec or tensor.is_inference():
                continue
            owner = next((owner for owner in owners if torch._C._is_alias_of(tensor, owner)), None)  # type: ignore[attr-defined]
            if owner is None:
                made.setdefault(spec["i"], (tensor, spec))
            elif not owner.is_inference() and tensor._base is not (owner if owner._base is None else owner._base):
                spec["link"] = ["detached"]
        memories: "dict[int, list[tuple[int, torch.Tensor, torch.Tensor | None, Spec]]]" = {}
        for i, (tensor, spec) in made.items():
            memories.setdefault(torch._C._storage_address(tensor), []).append((i, tensor, tensor._base, spec))  # type: ignore[attr-defined]
        for shared in memories.values():
            for at, (_, tensor, base, spec) in enumerate(shared):
                whole = next((j for j, other, _, _ in shared if other is base), None)
                parts = [j for j, _, of, _ in shared if base is not None and of is base]
                others = [j for j, _, of, _ in shared[:at] if of is not tensor]
                if whole is not None:
                    spec["link"] = ["view", whole]
                elif len(parts) > 1:
                    spec["link"] = ["part", parts[0]]
                elif others:
                    spec["link"] = ["detached", others[0]]

    def encode(self, value: typing.Any, depth: int = 0) -> Spec:
        """Unsupported names the type that cannot be rebuilt."""
        if depth > _DEPTH_MAX:
            raise errors.Unsupported("it is nested too deep or contains itself")
        if kinds.is_tensor(value):
            return self._encode_tensor(value, depth)
        if type(value) in (int, float):
            if id(value) not in self._measures:
                measure = self._measured(value)
                if measure is not None:
                    self._measures[id(value)] = (value, measure[1], {"t": measure[0]})
            if id(value) in self._measures:
                return self._measures[id(value)][2]
        if value is None or type(value) in (bool, int, str):
            return {"t": "const", "v": value}
        if type(value) is float:
            return {"t": "float", "v": value.hex() if math.isfinite(value) else repr(value)}
        if kinds.is_a(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
            return {"t": type(value).__name__, "v": str(value)}
        if kinds.is_a(value, type) and "<locals>" not in value.__qualname__:
            return {"t": "class", **_class_name(value)}
        if self._is_argument(value):  # Whatever else leads to it: another call may be given another.
            self.touched = value
            raise errors.Unsupported(f"it holds an argument's own {type(value).__name__}; build a new one")
        path = self._path_of(value)
        if path is not None:
            self.given_on.append(value)
            return {"t": "path", "p": path}
        known = self._shared.get(id(value))
        if known is not None and not known[1]:
            raise errors.Unsupported(f"a {type(value).__name__} contains itself")
        if known is not None:
            # Built where it stands first; from there on it is the same object.
            spec = known[1]
            spec.setdefault("n", len([s for _, s in self._shared.values() if "n" in s]))
            return {"t": "same", "n": spec["n"]}
        spec = {}
        self._shared[id(value)] = (value, spec)
        spec.update(self._encode_object(value, depth))
        return spec

    def _encode_tensor(self, value: torch.Tensor, depth: int) -> Spec:
        plain = collectives.unwrapped(value)
        if plain is not value:
            return {"t": "async", "c": [self.encode(plain, depth + 1)]}
        if _native.has_own_attributes(value) and self._path_of(value) is None and not self._is_argument(value):
            raise errors.Unsupported(f"a tensor with attributes of its own ({', '.join(list(vars(value))[:3])})")
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self.leaves)
            self.leaves.append(value)
        spec: Spec = {"t": "leaf", "i": number}
        path = self._path_of(value)
        if type(value) is not torch.Tensor and path is None and id(value) not in self._inputs:
            raise errors.Unsupported(f"a {kinds.class_name(value)}, where native code makes a plain tensor")
        if id(value) in self._inputs:
            spec["input"] = self._inputs[id(value)]
        elif path is not None:
            spec["p"] = path
        self._specs.append((value, spec))
        return spec

    def _encode_object(self, value: typing.Any, depth: int) -> Spec:
        kind = type(value)
        if kind in (tuple, list, torch.Size):
            return {"t": "size" if kind is torch.Size else kind.__name__, "c": [self.encode(v, depth + 1) for v in value]}
        if kind is dict:
            return {"t": "dict", "k": [_key(k) for k in value], "c": [self.encode(v, depth + 1) for v in value.values()]}
        if kind in (set, frozenset):
            return {"t": kind.__name__, "c": self._members(value)}
        if kind is collections.OrderedDict:
            return {"t": "ordered", "k": [_key(k) for k in value], "c": [self.encode(v, depth + 1) for v in value.values()]}
        if kind is collections.defaultdict:
            return {"t": "defaultdict", "f": self.encode(value.default_factory, depth + 1), "k": [_key(k) for k in value],
                    "c": [self.encode(v, depth + 1) for v in value.values()]}
        if kind is collections.deque:
            return {"t": "deque", "m": value.maxlen, "c": [self.encode(v, depth + 1) for v in value]}
        if kind is slice:
            return {"t": "slice", "c": [self.encode(v, depth + 1) for v in (value.start, value.stop, value.step)]}
        if kind is types.SimpleNamespace:
            return {"t": "namespace", "k": list(vars(value)), "c": [self.encode(v, depth + 1) for v in vars(value).values()]}
        return self._encode_class(value, depth)

    def _encode_class(self, value: typing.Any, depth: int) -> Spec:
        kind = type(value)
        if kind is complex or callable(value) or kind.__module__ == "builtins":
            raise errors.Unsupported(f"a {kind.__module__}.{kind.__qualname__} cannot be rebuilt")
        if kinds.is_a(value, tuple) and not hasattr(kind, "_fields") and kind.__module__ == "torch.return_types":
            return {"t": "sequence", **_class_name(kind), "c": [self.encode(v, depth + 1) for v in value]}
        base: typing.Any = _native.native_base(kind)
        if base is kind or base not in _BASES:
            raise errors.Unsupported(f"a {kind.__module__}.{kind.__qualname__} cannot be rebuilt")
        spec: Spec = {"t": "object", **_class_name(kind), "b": base.__name__}
        if base in (dict, collections.OrderedDict):
            spec["ik"] = [_key(k) for k in base.keys(value)]
            spec["ic"] = [self.encode(v, depth + 1) for v in base.values(value)]
        elif base in (list, tuple):
            spec["ic"] = [self.encode(v, depth + 1) for v in base.__iter__(value)]
        elif base is set:
            spec["ic"] = self._members(value)
        state = _state(value)
        spec["k"], spec["c"] = list(state), [self.encode(v, depth + 1) for v in state.values()]
        return spec

    def _members(self, value: typing.Any) -> "list[Spec]":
        """Of a set, in an order in which another gets the same one."""
        members = [_key(member) for member in (frozenset if kinds.is_a(value, frozenset) else set).__iter__(value)]
        if list(set(members)) != members:
            raise errors.Unsupported("the order of a set comes from what was taken out of it")
        self.has_orders |= len(members) > 1
        return [{"t": "const", "v": member} for member in members]


def _key(key: typing.Any) -> typing.Any:
    if type(key) not in (str, int):
        raise errors.Unsupported(f"a key or member of type {type(key).__name__} cannot be stored")
    return key


def _state(value: typing.Any) -> "dict[str, typing.Any]":
    """Attributes by name, those in slots behind those in the dict."""
    state: "dict[str, typing.Any]" = {}
    for base in type(value).__mro__:
        holder = vars(base).get("__dict__")
        if isinstance(holder, types.GetSetDescriptorType):
            state.update(holder.__get__(value))
            break
    for base in type(value).__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType) and name not in state:
                try:
                    state[name] = member.__get__(value)
                except AttributeError:
                    continue
    return state


def _class_name(kind: type) -> Spec:
    name = {"m": kind.__module__, "q": kind.__qualname__}
    if _named(name) is not kind:
        raise errors.Unsupported(f"a {kind.__qualname__}, a class that another process cannot find by name")
    return name


def _named(spec: Spec) -> typing.Any:
    value: typing.Any = sys.modules.get(spec["m"])
    for part in spec["q"].split("."):
        value = getattr(value, part, None)
    return value


def find_class(spec: Spec) -> typing.Any:
    """The class a spec names, among what is loaded; NotFound otherwise."""
    value = _named(spec)
    if not isinstance(value, type):
        raise errors.NotFound(f"class {spec['m']}.{spec['q']} is not loaded in this process")
    return value


def _restore(made: typing.Any, names: "list[str]", values: "typing.Sequence[typing.Any]") -> typing.Any:
    """Sets attributes as ``object`` does, whatever the class says."""
    for name, value in zip(names, values):
        object.__setattr__(made, name, value)
    return made


def _rebuild(kind: type, spec: Spec) -> "typing.Callable[[list[typing.Any]], typing.Any]":
    base, names, keys = spec["b"], spec["k"], spec.get("ik", [])
    count = len(spec.get("ic", ()))

    def build(values: "list[typing.Any]") -> typing.Any:
        inner, state = values[:count], values[count:]
        made: typing.Any
        if base == "tuple":
            made = tuple.__new__(kind, inner)
        elif base == "dict":
            made = dict.__new__(kind)
            dict.update(made, zip(keys, inner))
        elif base == "OrderedDict":
            made = collections.OrderedDict.__new__(kind)
            for key, value in zip(keys, inner):
                collections.OrderedDict.__setitem__(made, key, value)
        elif base == "list":
            made = list.__new__(kind)
            list.extend(made, inner)
        elif base == "set":
            made = set.__new__(kind)
            set.update(made, inner)
        else:
            made = object.__new__(kind)
        return _restore(made, names, state)

    return build


def decode(spec: Spec, roots: paths.Roots, loaded: bool = False) -> "tuple[typing.Any, ...]":
    """The nested tuples that the native output tree takes (client/native/site/output_tree.h). ``loaded``: from a file, whose
    weights are objects of nobody's."""
    made = _decode(spec, roots, loaded)
    return ("keep", spec["n"], made) if "n" in spec and spec["t"] != "same" else made


def float_of(spec: Spec) -> float:
    """The value of a node that is a float."""
    return float.fromhex(spec["v"]) if "0x" in spec["v"] else float(spec["v"])


def _decode(spec: Spec, roots: paths.Roots, loaded: bool) -> "tuple[typing.Any, ...]":
    kind = spec["t"]
    if kind == "leaf":
        if "input" in spec:
            return ("input", spec["input"])
        if "p" in spec and not loaded:
            return ("const", paths.resolve(spec["p"], roots))
        how, *base = spec.get("link", ("leaf",))
        return (how, spec["i"], *base)
    if kind in ("same", "sized", "item"):
        return (kind, spec["n" if kind == "same" else "i"])
    if kind == "const":
        return ("const", spec["v"])
    if kind == "float":
        return ("const", float_of(spec))
    if kind in ("dtype", "layout", "memory_format"):
        return ("const", getattr(torch, spec["v"].removeprefix("torch.")))
    if kind == "device":
        return ("const", torch.device(spec["v"]))
    if kind == "class":
        return ("const", find_class(spec))
    if kind == "path":
        return ("const", paths.resolve(spec["p"], roots))
    inner = [decode(child, roots, loaded) for child in [*spec.get("ic", ()), *spec.get("c", ())]]
    if kind in ("tuple", "list"):
        return (kind, inner)
    if kind == "dict":
        return ("dict", spec["k"], inner)
    keys = spec.get("k", ())
    makers: "dict[str, typing.Callable[[list[typing.Any]], typing.Any]]" = {
        "size": torch.Size, "slice": lambda values: slice(*values), "set": set, "frozenset": frozenset, "async": lambda values: collectives.done(values[0]),
        "deque": lambda values: collections.deque(values, spec["m"]),
        "namespace": lambda values: types.SimpleNamespace(**dict(zip(keys, values))),
        "ordered": lambda values: collections.OrderedDict(zip(keys, values)),
        "defaultdict": lambda values: collections.defaultdict(values[0], zip(keys, values[1:])),
    }
    if kind == "defaultdict":
        inner.insert(0, decode(spec["f"], roots, loaded))
    if kind in makers:
        return ("call", makers[kind], inner)
    if kind in ("sequence", "object"):
        found = find_class(spec)
        return ("call", found if kind == "sequence" else _rebuild(found, spec), inner)
    raise errors.Corrupt(f"unknown result structure {kind!r}")
