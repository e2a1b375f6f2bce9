# SPDX-License-Identifier: Apache-2.0
"""Makes a failing program small: leaves out changes and statements for as long as it still fails."""

import ast
import copy
import time
import typing

import twins

Fails = typing.Callable[[twins.Program], bool]
OPTIONS = ("mutations", "needless", "native")


def shrunk(program: twins.Program, fails: Fails, seconds: float) -> twins.Program:
    """The smallest program found in that time; ``fails`` says whether one still fails in the same way."""
    ends = time.monotonic() + seconds
    while (smaller := _smaller(program, fails, ends)) is not None:
        program = smaller
    return program


def _smaller(program: twins.Program, fails: Fails, ends: float) -> "twins.Program | None":
    """After one round of leaving things out; None when nothing could be."""
    start = program
    for name in ("needless", "mutations"):
        for number in reversed(range(len(getattr(program, name)))):
            left = [change for at, change in enumerate(getattr(program, name)) if at != number]
            program = _tried(program, _with(program, program.text, **{name: left}), fails, ends)
    number = 0
    while (text := _without(program.text, number)) is not None:
        tried = _tried(program, _with(program, text), fails, ends) if text else program
        number += tried is program
        program = tried
    return program if program is not start else None


def _tried(program: twins.Program, smaller: twins.Program, fails: Fails, ends: float) -> twins.Program:
    return smaller if time.monotonic() < ends and fails(smaller) else program


def _with(program: twins.Program, text: str, **options: "list[str]") -> twins.Program:
    said = {"mutations": program.mutations, "needless": program.needless, "native": program.native, **options}
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if not _is_option(node)]
    lines = [ast.unparse(tree), *(f"{name} = {value!r}" for name, value in said.items() if value != [] and (name, value) != ("native", True))]
    return twins.program(program.name, "\n".join(lines) + "\n")


def _is_option(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in OPTIONS


def _without(text: str, number: int) -> "str | None":
    """The program without its statement of that number, counted from the last, or with only the body of it where it has one;
    None when there are no more, "" when that one has to stay."""
    tree = copy.deepcopy(ast.parse(text))
    places: "list[tuple[list[ast.stmt], int]]" = []
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                places += [(block, at) for at in range(len(block)) if isinstance(block[at], ast.stmt)]
    variants = [(block, at, opened) for block, at in places for opened in (False, True)]
    if number >= len(variants):
        return None
    block, at, opened = variants[-1 - number]
    node = block[at]
    if _is_option(node) or opened and not isinstance(node, (ast.If, ast.For, ast.While, ast.With, ast.Try)):
        return ""
    inside: "list[ast.stmt]" = node.body if opened else []  # type: ignore[attr-defined]
    block[at:at + 1] = inside or ([ast.Pass()] if len(block) == 1 and not isinstance(node, ast.Pass) else [])
    if not block:
        return ""
    try:
        out = ast.unparse(ast.fix_missing_locations(tree))
        ast.parse(out)
        return out
    except (SyntaxError, ValueError):
        return ""
