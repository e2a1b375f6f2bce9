# SPDX-License-Identifier: Apache-2.0
"""What the interpreter and PyTorch look up by themselves: builtins of a function's own, `__build_class__`, the `get` of a mapping that
a pattern matches, fields of a format, special names that are values, what lies behind torch.ops. In this process and in another one
of the same store."""

import builtins
import collections
import os
import pathlib
import sys
import types

import numpy
import pytest
import torch
from conftest import Store


class Case:
    """A function, and what changes what it finds; `undo` puts it back."""

    def __init__(self, function, change, undo, *arguments, is_native=True):
        self.function, self.change, self.undo = function, change, undo
        self.arguments, self.is_native = arguments, is_native


CASES = {}


def case(make):
    CASES[make.__name__.replace("_", " ")] = make
    return make


def _setting(holder, name, value):
    """Sets an attribute, and puts back what the holder had of its own."""
    own = vars(holder)
    was = own[name] if name in own else own

    def undo():
        delattr(holder, name) if was is own else setattr(holder, name, was)

    return lambda: setattr(holder, name, value), undo


def _of_code(code, variables, name="f"):
    exec(code, variables)
    return variables[name]


MODULE = sys.modules[__name__]


# -- builtins


@case
def a_dict_as_builtins():
    own = {"K": 3}
    function = _of_code("def f(x): return x * K", {"__builtins__": own})
    return Case(function, lambda: own.update(K=5), lambda: own.update(K=3))


@case
def a_copy_of_the_builtins():
    own = dict(vars(builtins))
    function = _of_code("def f(x): return x * max(2, 3)", {"__builtins__": own})
    return Case(function, lambda: own.update(max=min), lambda: own.update(max=max))


@case
def a_module_as_builtins_that_is_nowhere():
    own = types.ModuleType("nowhere")
    own.K = 3
    function = _of_code("def f(x): return x * K", {"__builtins__": own})
    return Case(function, *_setting(own, "K", 5))


@case
def a_function_with_builtins():
    own = {"K": 3}
    function = types.FunctionType(_of_code("def f(x): return x * K", {}).__code__, {"__builtins__": own})
    return Case(function, lambda: own.update(K=5), lambda: own.update(K=3))


@case
def a_builtin_that_comes():
    own = {"NameError": NameError}
    function = _of_code("def f(x):\n try: return x * K\n except NameError: return x", {"__builtins__": own})
    return Case(function, lambda: own.update(K=5), lambda: own.pop("K"))


@case
def a_called_function_with_builtins():
    own = {"K": 3}
    inner = _of_code("def f(x): return x * K", {"__builtins__": own})
    return Case(lambda x: inner(x), lambda: own.update(K=5), lambda: own.update(K=3))


@case
def an_inner_function_with_builtins():
    own = {"K": 3}
    function = _of_code("def f(x): return (lambda: x * K)()", {"__builtins__": own})
    return Case(function, lambda: own.update(K=5), lambda: own.update(K=3))


@case
def what_makes_classes():
    build = builtins.__build_class__

    def other(*arguments, **keywords):
        made = build(*arguments, **keywords)
        made.k = 7
        return made

    def f(x):
        class Inner:
            k = 2

        return x * Inner.k

    return Case(f, *_setting(builtins, "__build_class__", other))


# -- patterns


class Table(dict):
    pass


class Ordered(collections.OrderedDict):
    pass


class Default(collections.defaultdict):
    pass


class Plain(collections.UserDict):
    pass


def matches(x, table):
    match table:
        case {"a": value}:
            return x * value
    return x


def matches_rest(x, table):
    match table:
        case {"a": value, **rest}:
            return x * value + len(rest) + rest.get("b", 0)
    return x


for match in (matches, matches_rest):
    for kind in (Table, Ordered, Default, Plain):
        for is_argument in (False, True):
            def make(match=match, kind=kind, is_argument=is_argument):
                table = kind(int) if kind is Default else kind()
                table.update(a=2, b=1)
                change, undo = _setting(kind, "get", lambda *_: 5)
                if is_argument:
                    return Case(match, change, undo, table)
                return Case(lambda x: match(x, table), change, undo)

            CASES[f"{match.__name__} a {kind.__name__}{' of an argument' if is_argument else ''}"] = make


@case
def matches_a_dict_whose_entry_changes():
    table = {"a": 2, "b": 1}
    return Case(lambda x: matches(x, table), lambda: table.update(a=5), lambda: table.update(a=2))


@case
def matches_a_dict_with_others():
    table = {"a": 2, "b": 1}
    return Case(lambda x: matches_rest(x, table), lambda: table.update(b=5), lambda: table.update(b=1))


@case
def matches_an_object_with_a_get_of_its_own():
    table = Table(a=2)
    return Case(lambda x: matches(x, table), *_setting(table, "get", lambda *_: 5))


@case
def matches_a_view():
    table = {"a": 2}
    view = types.MappingProxyType(table)
    return Case(lambda x: matches(x, view), lambda: table.update(a=5), lambda: table.update(a=2))


# -- formats


class Named:
    k = 2

    def __repr__(self):
        return "named"


NAMED = Named()

for form in ("{0[:].k}", "{0[!].k}", "{0[}].k}", "{0[{].k}", "{0[.].k}", "{1.k}", "{2:{1.k}}", "{2:{0[:].k}}"):
    CASES[f"the format {form}"] = lambda form=form: Case(
        lambda x: x * int(form.format(TABLE_OF_NAMED, NAMED, 3)), *_setting(NAMED, "k", 5), is_native=False)
TABLE_OF_NAMED = dict.fromkeys(":!}{.", NAMED)


@case
def format_map():
    return Case(lambda x: x * int("{q[:].k}".format_map({"q": TABLE_OF_NAMED})), *_setting(NAMED, "k", 5), is_native=False)


@case
def a_format_of_numbers():
    state = {"k": 2.125}
    return Case(lambda x: x * float("{:.2f}{{.}}"[:6].format(state["k"])), lambda: state.update(k=5.25), lambda: state.update(k=2.125))


# -- special names that are values


ARRAY = numpy.ones(3)


class Priority:
    __array_priority__ = -10.0

    def __rmul__(self, other):
        return 7


@case
def a_special_name_that_is_a_number():
    one = Priority()
    return Case(lambda x: x * 2 if isinstance(ARRAY * one, int) else x * 3, *_setting(Priority, "__array_priority__", 10.0))


@case
def a_special_name_that_is_an_object():
    one = Priority()
    return Case(lambda x: x * 2 if isinstance(ARRAY * one, int) else x * 3, *_setting(Priority, "__array_priority__", numpy.float32(10)))


# -- torch.ops


PACKET, OVERLOAD = torch.ops.aten.sin, torch.ops.aten.sin.default
for name, function, holder, attribute, value, is_native in (
        ("a namespace's own", lambda x: x * torch.ops.aten.own_k, torch.ops.aten, "own_k", 5, True),
        ("an attribute of torch.ops", lambda x: x * torch.ops.own_k, torch.ops, "own_k", 5, True),
        ("an attribute of an operator", lambda x: x * torch.ops.aten.sin.own_k, PACKET, "own_k", 5, True),
        ("an attribute of an overload", lambda x: x * torch.ops.aten.sin.default.own_k, OVERLOAD, "own_k", 5, True),
        ("an operator", lambda x: torch.ops.aten.sin(x), torch.ops.aten, "sin", torch.ops.aten.cos, True),
        ("an overload", lambda x: torch.ops.aten.sin.default(x), PACKET, "default", torch.ops.aten.cos.default, True),
        ("a namespace", lambda x: torch.ops.aten.sin(x), torch.ops, "aten", types.SimpleNamespace(sin=torch.cos), True),
        ("an operator's function", lambda x: torch.ops.aten.sin(x), PACKET, "_op", torch.ops.aten.cos._op, True),
        ("an overload's function", lambda x: torch.ops.aten.sin.default(x), OVERLOAD, "_op", torch.ops.aten.cos.default._op, True),
        ("calls of overloads", lambda x: torch.ops.aten.sin.default(x), type(OVERLOAD), "__call__", lambda self, x: x * 5, True),
        ("calls of operators", lambda x: torch.ops.aten.sin(x), type(PACKET), "__call__", lambda self, x: x * 5, True),
        ("how many overloads", lambda x: x * len(torch.ops.aten.sin.overloads()), PACKET, "_overload_names", [""], True),
        ("how overloads are counted", lambda x: x * len(torch.ops.aten.sin.overloads()), type(PACKET), "overloads", lambda self: "four", True),
        ("libraries", lambda x: x * len(torch.ops.loaded_libraries), torch.ops, "loaded_libraries", {1, 2, 3}, True),
        ("absence", lambda x: x * 2 if hasattr(torch.ops.aten, "own_r") else x * 3, torch.ops.aten, "own_r", 5, False),
):
    def make(function=function, holder=holder, attribute=attribute, value=value, is_native=is_native):
        if attribute == "own_k":
            setattr(holder, attribute, 2)
        change, undo = _setting(holder, attribute, value)
        return Case(function, change, undo, is_native=is_native)

    CASES[f"torch.ops: {name}"] = make


@case
def a_class_that_says_it_is_of_torch_ops():
    kind = type("OpOverload", (), {"__module__": "torch._ops", "k": 2})
    one = kind()
    return Case(lambda x: x * one.k, *_setting(one, "k", 5))


def _run(case, ingot):
    step, x = ingot.compile(case.function, wait=True, config=ingot.Config(agree="off")), torch.ones(3)
    with torch.no_grad():
        for change in (lambda: None, case.change, case.undo, case.change):
            change()
            for _ in range(3):
                assert torch.allclose(step(x, *case.arguments), case.function(x, *case.arguments))


@pytest.mark.parametrize("name", CASES)
def test_what_is_looked_up_without_an_instruction_is_seen(ingot, name):
    case, before = CASES[name](), ingot.stats()["native_calls"]
    try:
        _run(case, ingot)
    finally:
        try:
            case.undo()
        except (AttributeError, KeyError):
            pass
    assert (ingot.stats()["native_calls"] > before) == case.is_native


CHILD = """
import sys, torch, ingot
sys.path[:0] = [{folder!r}, {folder!r}.rpartition("/")[0]]
import test_lookups_of_native_code as module
case = module.CASES[sys.argv[1]]()
if sys.argv[2] == "changed":
    case.change()
with torch.no_grad():
    x = torch.ones(3)
    step = ingot.compile(case.function, wait=True, config=ingot.Config(agree="off"))
    for _ in range(2):
        assert torch.allclose(step(x, *case.arguments), case.function(x, *case.arguments)), step.why_miss()
print("native", ingot.stats()["native_calls"])
"""

FOUND_AGAIN = ["a copy of the builtins", "a called function with builtins", "what makes classes", "matches a Table", "matches_rest a Table of an argument",
               "a special name that is a number", "a special name that is an object", "torch.ops: a namespace's own", "torch.ops: an operator",
               "torch.ops: an overload", "torch.ops: calls of overloads", "torch.ops: an operator's function"]


@pytest.mark.parametrize("name", FOUND_AGAIN)
def test_another_process_looks_it_up_again(ingot, name):
    folder, said = str(pathlib.Path(__file__).parent), []
    for state in ("as it is", "as it is", "changed"):
        done = Store.parents.run(CHILD.format(folder=folder), name, state, env=os.environ)
        assert done.returncode == 0, done.stderr[-2000:]
        said.append(done.stdout.strip())
    assert said[1] == "native 2", said


def test_an_operator_that_is_defined_later_is_found(ingot):
    def f(x):
        try:
            return torch.ops.ingot_later.double(x)
        except AttributeError:
            return x * 3

    step, x = ingot.compile(f, wait=True, config=ingot.Config(agree="off")), torch.ones(3)
    with torch.no_grad():
        for _ in range(3):
            assert torch.equal(step(x), x * 3)
        library = torch.library.Library("ingot_later", "DEF")
        library.define("double(Tensor x) -> Tensor")
        library.impl("double", lambda x: x * 2, "CPU")
        for _ in range(3):
            assert torch.equal(step(x), x * 2)
        library._destroy()


@pytest.mark.parametrize("function", {
    "an operator": lambda x: torch.ops.aten.tan(x),
    "an overload": lambda x: torch.ops.aten.tan.default(x) + torch.ops.aten.add.Tensor(x, x),
    "two of one operator": lambda x: torch.ops.aten.sub.Tensor(x, x) + torch.ops.aten.sub.Scalar(x, 1),
    "__and__": lambda x: torch.ops.aten.__and__.Scalar(x.int(), 1) + x,
    "its name": lambda x: x * len(torch.ops.aten.tan.__name__) * len(torch.ops.aten.tan.default.name()),
}.items(), ids=lambda item: item[0])
def test_operators_are_native_when_they_are_first_asked_for(ingot, function):
    """Which is when PyTorch makes them."""
    step, x = ingot.compile(function[1], wait=True, config=ingot.Config(agree="off")), torch.ones(3)
    before = ingot.stats()["native_calls"]
    with torch.no_grad():
        for _ in range(3):
            assert torch.allclose(step(x), function[1](x))
    assert ingot.stats()["native_calls"] == before + 2, step.why_miss()
