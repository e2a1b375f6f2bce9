# SPDX-License-Identifier: Apache-2.0
"""Makes a failing program smaller while it still fails in the same way."""

import dataclasses
import re
import time
import typing

import torch

import errors
import program


def shrunk(failing: program.Program, still_fails: "typing.Callable[[program.Program], bool]", seconds: float) -> program.Program:
    """A smaller program that fails; the smallest found in that time."""
    ends = time.monotonic() + seconds
    best, progress = failing, True
    while progress:
        progress = False
        for candidate in _smaller(best):
            if time.monotonic() > ends:
                return best
            if _is_valid(candidate) and still_fails(candidate):
                best, progress = candidate, True
                break
    return best


def _smaller(p: program.Program) -> "typing.Iterator[program.Program]":
    if len(p.results) > 1:
        half = len(p.results) // 2
        yield dataclasses.replace(p, results=p.results[:half])
        yield dataclasses.replace(p, results=p.results[half:])
        for i in range(len(p.results)):
            yield dataclasses.replace(p, results=p.results[:i] + p.results[i + 1:])
    live = _without_dead(p)
    if live != p:
        yield live
    for i in reversed(range(len(p.body))):
        yield from _without_statement(p, i)
    if p.structure != "one" and len(p.results) == 1:
        yield dataclasses.replace(p, structure="one")
    if p.structure not in ("one", "tuple"):
        yield dataclasses.replace(p, structure="tuple")
    for i, (name, text) in enumerate(p.inputs):
        if len(p.inputs) > 1 and not any(name in program.used(line) for line in (*p.body, *p.results, *(given for _, given in p.inputs[i + 1:]))):
            yield dataclasses.replace(p, inputs=p.inputs[:i] + p.inputs[i + 1:])
        for simpler in _simpler_input(text):
            yield dataclasses.replace(p, inputs=p.inputs[:i] + ((name, simpler),) + p.inputs[i + 1:])
    for i in range(len(p.sizes)):
        if len(p.sizes) > 1:
            yield dataclasses.replace(p, sizes=p.sizes[:i] + p.sizes[i + 1:])


def _without_dead(p: program.Program) -> program.Program:
    """Without statements whose names nothing uses."""
    body = list(p.body)
    for i in reversed(range(len(body))):
        names = program.defined(body[i])
        later = {name for line in (*body[i + 1:], *p.results) for name in program.used(line)}
        if names and not later & set(names):
            del body[i]
    return dataclasses.replace(p, body=tuple(body))


def _without_statement(p: program.Program, at: int) -> "typing.Iterator[program.Program]":
    """Without a statement, and with one of its operands in place of each name it defined."""
    line, names = p.body[at], program.defined(p.body[at])
    rest = (p.body[:at], p.body[at + 1:])
    if not names:
        yield dataclasses.replace(p, body=rest[0] + rest[1])
        return
    operands = [name for name in program.used(line) if name not in names]
    for operand in operands or [p.inputs[0][0]]:
        pattern = re.compile(r"\b(" + "|".join(names) + r")\b")
        yield dataclasses.replace(p, body=rest[0] + tuple(pattern.sub(operand, later) for later in rest[1]),
                                  results=tuple(dict.fromkeys(pattern.sub(operand, name) for name in p.results)))


def _simpler_input(text: str) -> "typing.Iterator[str]":
    for wrapper in ("transposed", "spread", "inside"):
        if text.startswith(wrapper):
            yield text[len(wrapper) + 1:-1]
    if ".float(" in text and "dtype" in text:
        yield re.sub(r",? ?dtype=torch.\w+", "", text)


def _is_valid(p: program.Program) -> bool:
    """Whether eager takes it at every size, with results that can be compared."""
    if not p.results or any(name not in p.names() for name in p.results):
        return False
    module = program.load(p.text(), "candidate")
    with torch.no_grad():
        for sizes in p.sizes:
            try:
                with errors.Errors():
                    module.program(*module.inputs(*sizes, 1))
            except Exception:
                return False
    return True
