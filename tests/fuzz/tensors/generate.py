# SPDX-License-Identifier: Apache-2.0
"""Random programs. A statement is proposed, run eagerly at every size, and kept where all of them take it."""

import random
import re
import typing

import torch

import errors
import program
import statements
import values

NUMEL_MAX = 4096
RANK_MAX = 5
LARGEST_MAX = 1e3   # values beyond it make errors of rounding that nobody can bound
TRIES_MAX = 12      # for one statement

TYPES = ("torch.float32", "torch.float64", "torch.bfloat16", "torch.float16", "torch.int64", "torch.int32", "torch.int16", "torch.int8", "torch.uint8", "torch.bool")
NUMBERS = ("0", "1", "2", "3", "-1", "-2", "0.5", "-1.5", "0.25", "0.1")
# Of windows: kernels, paddings, steps, dilations, what is true or false, and pads; C is a small count.
CHOICES = {"C": "2237", "K": "12233", "P": "001112", "Q": "1123", "L": "1112", "O": ("True", "False"), "A": ("0", "1", "2", "-1", "3", "-2")}


class Rejected(Exception):
    """A statement that some size does not take."""


class Run:
    """The values of a program so far, at one pair of sizes."""

    def __init__(self, sizes: "tuple[int, int]", inputs: "list[tuple[str, str]]") -> None:
        make = {**values.names(), "torch": torch, "n": sizes[0], "m": sizes[1], "make": values.Values(1)}
        self.names: "dict[str, torch.Tensor]" = {}
        for name, text in inputs:   # which may name those before it
            self.names[name] = make[name] = eval(text, make)
        self.errors = errors.Errors()
        self.is_empty = 0 in sizes

    def step(self, line: str) -> None:
        """Runs a statement. Rejected when it raises, gives what is no tensor, or grows too large."""
        try:
            with self.errors:
                exec(line, {"torch": torch}, self.names)
        except Exception as error:
            raise Rejected(repr(error)) from None
        for name in program.used(line):
            value = self.names[name]
            if not isinstance(value, torch.Tensor) or value.numel() > NUMEL_MAX or value.dim() > RANK_MAX:
                raise Rejected(f"{name} is {type(value).__name__}")
            if errors.has_digits(value) and value.numel():
                if not self.is_empty and not bool(value.isfinite().all()) or errors.largest(value) > LARGEST_MAX:
                    raise Rejected(f"{name} grows")


class Generator:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._low = self._random.random() < 0.25   # half precision at all

    def make(self) -> program.Program:
        self._sizes = self._choose_sizes()
        self._inputs = self._choose_inputs()
        self._body: "list[str]" = []
        self._statements: "list[str]" = []   # what each line was made from
        self._runs = [Run(sizes, self._inputs) for sizes in self._sizes]
        self._count = 0
        for _ in range(self._random.randint(2, 14)):
            for _ in range(TRIES_MAX):
                statement, line = self._propose()
                if self._try(line):
                    self._statements.append(statement)
                    break
        return program.Program(tuple(self._inputs), tuple(self._body), tuple(self._choose_results()),
                               self._random.choice(("tuple", "tuple", "list", "dict", "nested")), tuple(self._sizes),
                               statements=tuple(self._statements))

    # -- sizes and inputs ---------------------------------------------------------------------------

    def _choose_sizes(self) -> "list[tuple[int, int]]":
        """Six pairs: two plain ones first (mostly), some small, some around the width of vectors."""
        pick = self._random
        plain = [(pick.randint(2, 9), pick.randint(2, 9)) for _ in range(3)] + [(pick.randint(2, 6), pick.choice((8, 15, 16, 17, 31, 33)))]
        ones = [(1, pick.randint(2, 9)), (pick.randint(2, 9), 1), (1, 1)]
        # Windows do not take what is empty: half of the programs leave it out.
        small = pick.sample([*ones, (0, pick.randint(2, 9)), (pick.randint(2, 9), 0)] if pick.random() < 0.5 else ones, 2)
        sizes = plain + small
        if pick.random() < 0.3:
            pick.shuffle(sizes)
        elif pick.random() < 0.2:   # what is special is seen before what is plain
            sizes = small + plain
        if pick.random() < 0.3:   # only one of them changes
            fixed = pick.randint(2, 9)
            sizes = [(n, fixed) for n in dict.fromkeys(n for n, _ in sizes)]
        return list(dict.fromkeys(sizes))

    def _choose_inputs(self) -> "list[tuple[str, str]]":
        pick = self._random
        shapes = ["n, m"] * 6 + ["m", "m", "n", "m, n", "n, 1", "1, m", "2, n, m", "n, 2, m", "4, m", "n, 6", "", "n, m, 2", "3, 4", "n * 2, m", "n, m + 1", "1, 2, n, m"]
        found = []
        for i in range(pick.randint(1, 4)):
            shape = pick.choice(shapes)
            sizes = f", {shape}" if shape else ""
            kind = pick.random()
            if kind < 0.6:
                dtype = pick.choice(("float32",) * 5 + ("float64",) + (("bfloat16", "float16") if self._low else ()))
                text = f"make.float({shape}{', ' if shape else ''}dtype=torch.{dtype})"
            elif kind < 0.75:
                text = f"make.int({shape}{', ' if shape else ''}dtype=torch.{pick.choice(('int64', 'int64', 'int32', 'int16', 'int8', 'uint8'))})"
            elif kind < 0.82:
                text = f"make.bool({shape})"
            elif kind < 0.86:
                text = f"make.complex({shape})"
            else:
                below = pick.choice(("n", "m"))
                text = pick.choice((f"make.index({below}{sizes})", f"make.place({below}{sizes})", f"make.place({below}, {pick.choice(('n', 'm', '3'))})", f"make.order({below})"))
            if shape.count(",") and "make.order" not in text and pick.random() < 0.25:
                text = f"{pick.choice(('transposed', 'spread', 'inside'))}({text})"
            if i and pick.random() < 0.12:   # the same memory again
                before = f"a{pick.randrange(i)}"
                text = pick.choice((before, before, f"{before}[1:]", f"{before}[..., :-1]", f"{before}.view(-1)", f"{before}[..., None]", f"{before}.mT"))
            found.append((f"a{i}", text))
        try:
            for sizes in self._sizes:
                Run(sizes, found)
        except (RuntimeError, IndexError):   # A view that its memory does not have.
            return self._choose_inputs()
        return found

    # -- statements -------------------------------------------------------------------------------------

    def _propose(self) -> "tuple[str, str]":
        """A statement, and a line that is made from it."""
        kind, _, lines = self._random.choices(statements.KINDS, [weight for _, weight, _ in statements.KINDS])[0]
        statement = self._random.choice(lines)
        text = self._fill(statement)
        if kind == "value":
            return statement, f"v{self._count} = {text}"
        return statement, f"v{self._count}, v{self._count + 1} = {text}" if kind == "several" else text

    def _fill(self, text: str) -> str:
        first: "list[str]" = []
        dims: "list[str]" = []

        def one(match: "re.Match[str]") -> str:
            what = match[1]
            if what in "xfnibltywc":
                name = self._value(what, first[0] if first else None)
                first.append(name)
                return name
            if what == "s":
                return first[0]
            if what == "D":
                rank = self._runs[0].names[first[0]].dim() if first else 1
                dims.append(str(self._random.randrange(-max(rank, 1), max(rank, 1))))
                return dims[-1]
            if what == "N":
                return f"{first[0] if first else self._inputs[0][0]}.shape[{dims[-1] if dims else 0}]"
            if what == "S":
                return self._random.choice(NUMBERS)
            if what in CHOICES:
                return self._random.choice(CHOICES[what])
            if what == "Z":
                return self._size()
            if what == "T":
                return self._type()
            assert what == "SL", what
            return self._subscript(self._runs[0].names[first[-1]].dim())

        return re.sub(r"\{(\w+)\}", one, text)

    def _type(self) -> str:
        return self._random.choice([t for t in TYPES if self._low or t not in ("torch.bfloat16", "torch.float16")])

    def _all(self) -> "dict[str, list[torch.Tensor]]":
        return {name: [run.names[name] for run in self._runs] for name in self._runs[0].names}

    def _value(self, kind: str, first: "str | None") -> str:
        """The name of a value of that kind; recent ones more often. Rejected where there is none."""
        known = self._all()
        names = [name for name in known if _IS[kind](known[name][0])]
        if kind == "w" and first is not None:
            names = [name for name in names if all(a.shape == b.shape for a, b in zip(known[name], known[first]))]
        elif kind == "y" and first is not None and self._random.random() < 0.95:
            names = [name for name in names if all(_broadcast(a, b) for a, b in zip(known[name], known[first]))]
        if not names:
            raise Rejected(f"no value of kind {kind}")
        return self._random.choices(names, [1 + i for i in range(len(names))])[0]

    def _size(self) -> str:
        """A size of some value, or what functions do with one."""
        known = self._all()
        name = self._random.choice([n for n in known if known[n][0].dim()] or [self._inputs[0][0]])
        text = f"{name}.shape[{self._random.randrange(max(known[name][0].dim(), 1))}]"
        return self._random.choice((text, text, text, f"({text} // 2)", f"({text} + 1)", f"(2 * {text})"))

    def _subscript(self, rank: int) -> str:
        pick = self._random
        parts = []
        for _ in range(pick.randint(1, max(rank, 1))):
            size, count = self._size(), pick.choice("1123")
            parts.append(pick.choice((":", ":", ":", "...", "None", "0", "-1", f"{count}:", f":{count}", f"-{count}:", f":-{count}", "::2", "1::2", f"{count}:-1", "1:3", "::3",
                                      f"-{size}:", f":{size}", f"{size}:", f":-{size}", f"{size} - 1", f"{size} // 2:", f":{size} // 2", f"{size} // 2", f"-{size} // 2:",
                                      f"{size} - 2:", f"1:{size} - 1", f":{size}:2", f"-{size}::2", "5:", ":100", "-100:2", "3:1")))
        return ", ".join(p for i, p in enumerate(parts) if p != "..." or "..." not in parts[:i])

    def _try(self, line: str) -> bool:
        try:
            for run in self._runs:
                run.step(line)
        except Rejected:
            self._again()
            return False
        self._body.append(line)
        self._count += len(program.defined(line))
        return True

    def _again(self) -> None:
        """A rejected statement may have written: runs the others anew."""
        self._runs = [Run(sizes, self._inputs) for sizes in self._sizes]
        for run in self._runs:
            for line in self._body:
                run.step(line)

    def _choose_results(self) -> "list[str]":
        names = [name for line in self._body for name in program.defined(line)]
        chosen = [name for i, name in enumerate(names) if i == len(names) - 1 or self._random.random() < 0.5]
        if not chosen or self._random.random() < 0.15:
            chosen.append(self._random.choice(self._inputs)[0])
        if self._random.random() < 0.1:
            chosen.append(self._random.choice(chosen))
        return chosen


_IS: "dict[str, typing.Callable[[torch.Tensor], bool]]" = {
    "x": lambda t: True, "y": lambda t: True, "w": lambda t: True, "t": lambda t: True,
    "f": lambda t: t.is_floating_point(),
    "n": lambda t: t.dtype != torch.bool and not t.is_complex(),
    "c": lambda t: t.is_complex(),
    "i": lambda t: not errors.has_digits(t) and t.dtype != torch.bool,
    "b": lambda t: t.dtype == torch.bool,
    "l": lambda t: t.dtype == torch.int64 and t.dim() > 0,
}


def _broadcast(a: torch.Tensor, b: torch.Tensor) -> bool:
    return all(x == y or x == 1 or y == 1 for x, y in zip(reversed(a.shape), reversed(b.shape)))


def make(seed: int) -> program.Program:
    """The program of a seed. Equal seeds give equal programs."""
    with torch.no_grad():
        while True:
            generator = Generator(seed)
            try:
                found = generator.make()
            except Rejected:
                found = None
            if found is not None and found.body:
                return found
            seed += 1 << 32
