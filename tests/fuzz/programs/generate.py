# SPDX-License-Identifier: Apache-2.0
"""Draws ordinary Python programs: what they keep, where, how they read, use, write and return it, and what changes between calls."""

import typing

import hypothesis.strategies as st
import kinds
import layers
import twins

HEADER = """import array, builtins, collections, contextlib, contextvars, copy, dataclasses, functools, itertools, math, operator, os, random
import re, threading, types, weakref
import numpy as np
import torch
import torch.nn.functional as F
"""
HELPERS = """class Helper:
    k = 2.0
    @staticmethod
    def run(v):
        return v * Helper.k
def helper(v):
    return Helper.run(v) + 1
@functools.lru_cache(maxsize=None)
def cached(n):
    return n * 1.5
"""
CLASSES = """class Own:
    scale = 2.0
    def __init__(self, v):
        self.v = v
    def __eq__(self, other):
        return self.v == other.v
    __hash__ = None
    def __str__(self):
        return f"<{self.v}>"
    def __iter__(self):
        return iter([("a", self.v)])
    def get(self):
        return self.v
    def keys(self):
        return ["v"]
    def __getitem__(self, name):
        return getattr(self, name)
class Sub(Own):
    scale = 4.0
def read(value):
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, (Own, types.SimpleNamespace)):
        return value.v if isinstance(value.v, float) else len(value.v)
    if isinstance(value, re.Pattern):
        return len(value.findall('abab'))
    if isinstance(value, tuple):
        return value[0] + len(value[1])
    return value() if callable(value) else sum(value)
"""
STYLES = ["plain", "closure", "method", "callable", "module", "wrapped"]


class Place(typing.NamedTuple):
    """A value under a name: how ``fn`` reads it, how statements of the module reach it, and those that change it."""

    kind: kinds.Kind
    inside: str
    outside: str
    changes: "list[str]"
    unread: "list[str]"


class Maker:
    """Draws one program."""

    def __init__(self, draw: typing.Any) -> None:
        self._draw = draw
        self._number = 0
        self._top: "list[str]" = []
        self._own: "dict[str, str]" = {}
        self._params: "list[str]" = []
        self._kwonly: "list[str]" = []

    def make(self) -> twins.Program:
        style = self._pick(STYLES)
        found = [self._place(style) for _ in range(self._draw(st.integers(1, 3)))]
        if any(place.kind.name in ("object", "shared") for place in found):
            self._top.insert(0, CLASSES.strip())
        body = [line for place in found for line in self._uses(place)]
        around: "list[str]" = []
        if self._chance(3):
            use, around = self._pick(kinds.SURROUNDINGS)
            body.append(use)
            if "elper" in use or "cached" in use:
                self._top.append(HELPERS.strip())
        if self._chance(4):
            body += self._write(self._pick(found))
        result = self._pick(kinds.RESULTS)
        self._top += [text.strip() for name, text in kinds.RESULT_TYPES.items() if result.startswith(name)]
        body.append(f"return {result}")
        mutations = self._some([change for place in found for change in place.changes] + around, 4)
        needless = self._some([change for place in found for change in place.unread] + ["UNREAD = 1"], 2)
        lines = [*self._top, *self._function(style, body), f"def inputs():\n    return ({', '.join(['torch.arange(4.0)', *self._params])},)",
                 f"mutations = {mutations!r}", f"needless = {needless!r}"]
        return twins.program("generated", HEADER + "\n".join(lines) + "\n")

    def _pick(self, options: typing.Any) -> typing.Any:
        return self._draw(st.sampled_from(options))

    def _chance(self, one_in: int) -> bool:
        return self._draw(st.integers(0, one_in - 1)) == one_in - 1

    def _some(self, options: "list[str]", most: int) -> "list[str]":
        return self._draw(st.lists(st.sampled_from(options), min_size=1, max_size=most, unique=True)) if options else []

    def _place(self, style: str) -> Place:
        kind, depth = self._pick(kinds.KINDS), self._draw(st.integers(0, 2))
        steps = []
        for layer in [self._pick(layers.LAYERS) for _ in range(depth)]:
            self._number += 1
            steps.append(layer._replace(**{field: text.replace("$", str(self._number)) for field, text in layer._asdict().items()}))
        self._top += [layer.define.strip() for layer in steps if layer.define]
        self._number += 1
        name = f"p{self._number}"
        inside, outside, rebind = self._root(style, name, _built(steps, self._value(kind)))
        changes, unread = [rebind.replace("{v}", _built(steps, self._value(kind)))], []
        for at, layer in enumerate(steps):
            if layer.write:
                changes.append(layer.write.format(e=outside, v=_built(steps[at + 1:], self._value(kind))))
            if layer.rewrite:
                changes.append(layer.rewrite.format(e=outside, v=_built(steps[at + 1:], self._value(kind))))
            if layer.unread:
                unread.append(layer.unread.format(e=outside))
            inside, outside = layer.read.format(e=inside), layer.read.format(e=outside)
        changes += [change.format(e=outside) for change in self._some(kind.changes, 2)]
        return Place(kind, inside, outside, changes, unread)

    def _value(self, kind: kinds.Kind) -> str:
        return self._pick(kind.values)

    def _root(self, style: str, name: str, built: str) -> "tuple[str, str, str]":
        """Where the value begins: how ``fn`` names it, how the module does, and the statement that rebinds it to ``{v}``."""
        ways = {"closure": ["own"], "method": ["own"], "callable": ["own"], "module": ["own"], "plain": ["default"], "wrapped": []}[style]
        way = self._pick(["global", *ways, "argument"])
        self._top.append(f"{name} = {built}")
        if way == "own":
            self._own[name] = name
            if style == "closure":
                cell = f"fn.__closure__[fn.__code__.co_freevars.index('{name}')].cell_contents"
                return name, cell, f"{cell} = {{v}}"
            return f"self.{name}", f"owner.{name}", f"owner.{name} = {{v}}"
        if way == "default":
            self._kwonly.append(f"{name}={name}")
            return name, f"fn.__kwdefaults__['{name}']", f"fn.__kwdefaults__['{name}'] = {{v}}"
        if way == "argument":
            self._params.append(name)
        return name, name, f"{name} = {{v}}"

    def _uses(self, place: Place) -> "list[str]":
        lines = []
        for use in self._draw(st.lists(st.sampled_from(place.kind.uses), min_size=1, max_size=2)):
            text = use.format(e=place.inside)
            if self._chance(5):
                text = self._pick(kinds.AROUND).replace("{s}", text.replace("\n", "\n    "))
            elif self._chance(6) and "raise" not in text:
                self._number += 1
                text = f"def part{self._number}(h):\n    " + text.replace("\n", "\n    ") + f"\n    return h\nh = part{self._number}(h)"
            lines += text.split("\n")
        return lines

    def _write(self, place: Place) -> "list[str]":
        """A statement by which the function changes what it reads, or what it keeps."""
        if place.kind.writes and self._chance(2):
            text = self._pick(place.kind.writes)
            if "{w}" not in text or not place.inside.endswith(")") and (place.inside.startswith("self.") or place.inside.endswith((".v", "]"))):  # Can be assigned to.
                return text.format(e=place.inside, w=place.inside).split("\n")
        self._number += 1
        name = f"kept{self._number}"
        make, write = self._pick(kinds.KEPT)
        self._top.append(f"{name} = {make}")
        return write.replace("{n}", name).split("\n")

    def _function(self, style: str, body: "list[str]") -> "list[str]":
        params, own = ", ".join(["x", *self._params, *(["*", *self._kwonly] if self._kwonly else [])]), list(self._own)
        said = [line for line in body if line.startswith("global ")]  # These go first.
        inner = [*said, "h = x * 1.0", *(line for line in body if line not in said)]
        quiet = [self._pick(["@torch.no_grad()", "@torch.inference_mode()"])] if self._chance(6) else []  # The caller's mode is another then.
        if style in ("method", "callable", "module"):
            method = {"method": "run", "callable": "__call__", "module": "forward"}[style]
            base = "(torch.nn.Module)" if style == "module" else ""
            init = [*(["super().__init__()"] if base else []), *(f"self.{name} = {name}" for name in own), "self.unread = 0"]
            lines = [f"class Owner{base}:", f"    def __init__({', '.join(['self', *own])}):", *(f"        {line}" for line in init),
                     *(f"    {line}" for line in quiet), f"    def {method}(self, {params}):", *(f"        {line}" for line in inner),
                     f"owner = Owner({', '.join(own)})", "fn = owner.run" if style == "method" else "fn = owner"]
        elif style == "closure":
            lines = [f"def make({', '.join(own)}):", *(f"    {line}" for line in quiet), f"    def fn({params}):",
                     *(f"        {line}" for line in inner), "    return fn", f"fn = make({', '.join(own)})"]
        else:
            lines = [*quiet, f"def fn({params}):", *(f"    {line}" for line in inner)]
            if style == "wrapped":
                lines = ["def wrapped(f):", "    @functools.wraps(f)", "    def wrapper(*args, **kwargs):", "        return f(*args, **kwargs)",
                         "    return wrapper", "@wrapped", *lines]
        return [*lines, *(['grad = "enable_grad"'] if quiet else [])]


def _built(steps: "list[layers.Layer]", value: str) -> str:
    for layer in reversed(steps):
        value = layer.build.format(v=value)
    return value


@st.composite
def programs(draw: typing.Any) -> twins.Program:
    return Maker(draw).make()
