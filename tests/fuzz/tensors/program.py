# SPDX-License-Identifier: Apache-2.0
"""A tensor program: inputs for any two sizes, a straight line of statements, results. Printed, it is a script."""

import dataclasses
import linecache
import re
import types
import typing

import torch

import values

MODES = ("exact", "one", "template", "gears", "export", "special", "wrong")


@dataclasses.dataclass(frozen=True)
class Program:
    inputs: "tuple[tuple[str, str], ...]"   # name, expression of n, m and make
    body: "tuple[str, ...]"
    results: "tuple[str, ...]"
    structure: str                          # tuple | list | dict | nested | one
    sizes: "tuple[tuple[int, int], ...]"
    modes: "tuple[str, ...]" = MODES
    statements: "tuple[str, ...]" = ()      # what each line of the body was made from, of a program that is as it was made

    def text(self, said: str = "A tensor program.") -> str:
        names = ", ".join(name for name, _ in self.inputs)
        lines = ["# SPDX-License-Identifier: Apache-2.0", f'"""{said}"""', "", "import torch",
                 "from values import Values, inside, spread, transposed", "", f"MODES = {list(self.modes)}", f"SIZES = {list(self.sizes)}", "", "",
                 "def inputs(n, m, seed):", "    make = Values(seed)", *(f"    {name} = {text}" for name, text in self.inputs),
                 f"    return [{names}]", "", "",
                 f"def program({names}):", *("    " + line for line in self.body), f"    return {self._returned()}", ""]
        return "\n".join(lines)

    def _returned(self) -> str:
        named = list(self.results)
        if self.structure == "one":
            return named[0]
        if self.structure == "list":
            return f"[{', '.join(named)}]"
        if self.structure == "dict":
            return "{" + ", ".join(f"'r{i}': {name}" for i, name in enumerate(named)) + "}"
        if self.structure == "nested" and len(named) > 1:
            return f"({named[0]}, [{', '.join(named[1:])}])"
        return f"({', '.join(named)},)"

    def operators(self) -> "list[list[str]]":
        """What each line calls, as PyTorch names it, at the first sizes."""
        module = load(self.text(), "counted")
        scope = {"torch": torch, **dict(zip((name for name, _ in self.inputs), module.inputs(*self.sizes[0], 1)))}
        found = []
        with torch.no_grad():
            for line in self.body:
                with torch.autograd.profiler.profile(use_kineto=False) as seen:
                    exec(line, scope)
                found.append([event.name.removeprefix("aten::").rstrip("_") for event in seen.function_events if event.cpu_parent is None])
        return found

    def names(self) -> "list[str]":
        """Every name that statements and results may use, inputs first."""
        return [name for name, _ in self.inputs] + [name for line in self.body for name in defined(line)]


def defined(line: str) -> "list[str]":
    """What a statement assigns to names."""
    left = re.match(r"((?:v\d+)(?:, v\d+)*) = ", line)
    return left[1].split(", ") if left else []


def used(text: str) -> "list[str]":
    """The names in a text, each once, in order."""
    return list(dict.fromkeys(re.findall(r"\b[av]\d+\b", text)))


def load(text: str, name: str) -> types.ModuleType:
    """A program's text as a module of its own, whose lines tracebacks can show."""
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    module = types.ModuleType(name)
    module.__file__ = file
    exec(compile(text, file, "exec"), vars(module))
    return module


def outcome(function: typing.Callable[..., typing.Any], args: "list[torch.Tensor]") -> "tuple[typing.Any, BaseException | None]":
    """What a call gives, or its exception."""
    try:
        return function(*args), None
    except Exception as error:  # that of the program is what eager raises too
        return None, error


__all__ = ["MODES", "Program", "defined", "load", "outcome", "used", "values"]
