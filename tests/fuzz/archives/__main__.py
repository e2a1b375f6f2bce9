# SPDX-License-Identifier: Apache-2.0
"""Random tensor programs (tests/fuzz/tensors) as archives of torch.export: compiled by `ingot compile` with open sizes, loaded, called, and held against
eager. Conditions, loops, scans and maps among them have no rule, and have to be refused by name. Programs whose sizes choose a way (a branch of Python's)
have to be eager's wherever they are served, and those whose buffers share memory in every call. So have programs that compute with sizes, at sizes far from those
that a compiler runs them at.

usage: tests/fuzz/archives [SECONDS] [--seed N] [--programs N] [--build DIR]
"""

import argparse
import collections
import copy
import os
import pathlib
import random
import sys
import tempfile
import time
import traceback
import typing
import warnings

import torch
from torch._higher_order_ops import map as on_each
from torch._higher_order_ops import scan, while_loop

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tensors"), str(HERE.parents[1] / "onnx")]

import check  # noqa: E402
import errors  # noqa: E402
import generate  # noqa: E402
import program  # noqa: E402
from batch import Batch  # noqa: E402

import ingot  # noqa: E402


IDENTITY = "are one object in only one of native and eager"


class Archived(torch.nn.Module):
    """A program as torch.export takes it."""

    def __init__(self, function: "typing.Callable[..., typing.Any]") -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: torch.Tensor) -> typing.Any:
        return self._function(*args)


class Refused(Exception):
    """Of a program that has no file: by whom, and why."""


def compiled(module: torch.nn.Module, args: "list[torch.Tensor]", batch: Batch, folder: pathlib.Path) -> typing.Any:
    path, output = folder / "program.pt2", folder / "program.ingot"
    dims = tuple({d: torch.export.Dim.AUTO for d in range(a.dim()) if a.shape[d] > 1} for a in args)
    try:
        torch.export.save(torch.export.export(module, tuple(args), dynamic_shapes=(dims,)), str(path))
    except Exception as error:  # torch.export raises whatever its passes meet
        raise Refused(f"torch.export: {type(error).__name__}") from None
    answer = batch.compile({"program": str(path), "output": str(output)})
    if answer.get("code") in ("internal", "crash"):
        raise AssertionError(f"{answer['code']}: {answer['error']}")
    if "error" in answer:
        raise Refused(f"{answer['code']}: {answer['error'].split(': ', 2)[-1][:90]}")
    return ingot.load(str(output))


class Checker(check.Checker):
    """The mode that others have not."""

    def __init__(self, module: typing.Any, batch: Batch, folder: pathlib.Path) -> None:
        super().__init__(ingot, module)
        self._batch, self._folder = batch, folder

    def archive(self) -> None:
        with torch.no_grad():
            sizes = [pair for pair in self._sizes() if 0 not in pair] or self._sizes()
            loaded = compiled(Archived(self._module.program), self._module.inputs(*max(sizes), 1), self._batch, self._folder)
            for pair in self._sizes():
                try:
                    self._call("export", loaded, pair, 2)
                except errors.Unsteady:
                    continue


def control(seed: int) -> "tuple[str, torch.nn.Module, list[torch.Tensor]]":
    """A program that runs a part of it by data, and the name that a refusal has to say."""
    chosen = random.Random(seed)
    scale = chosen.choice((2.0, 0.5, -1.0))
    x = torch.randn(chosen.choice((2, 3, 5)), 4)
    which = chosen.choice(("cond", "while_loop", "map", "scan"))

    def function(x: torch.Tensor) -> typing.Any:
        if which == "cond":
            return torch.cond(x.sum() > 0, lambda y: y * scale, lambda y: y.sin(), (x,))
        if which == "while_loop":
            return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * scale), (torch.zeros((), dtype=torch.int64), x))
        if which == "map":
            return on_each(lambda row: row * scale, x)
        return scan(lambda carry, row: (carry + row, carry * scale), torch.zeros(4), x, dim=0)

    return which, Archived(function), [x]


class Ways(torch.nn.Module):
    """Sizes choose between two ways; buffers, which may be windows of one memory, are written."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        r = self._chosen = random.Random(seed)
        left, right = (f"{r.choice(('', '2 * ', '3 * '))}{r.choice(SIZES)}{r.choice(('', f' + {r.randint(1, 4)}', f' % {r.randint(2, 4)}', f' // {r.randint(2, 4)}'))}"
                       for _ in range(2))
        right = r.choice((right, str(r.randint(0, 12))))
        self.condition = f"{left} {r.choice(('<', '<=', '>', '>=', '==', '!='))} {right}"
        memory = torch.arange(8.0)
        for name in ("first", "second"):
            start = r.randint(0, 4)
            window = memory[start:start + 4]
            self.register_buffer(name, window if r.random() < 0.4 else window.clone())
        self.writes = r.choice(("first", "second", ""))

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        x, y = args
        way = eval(self.condition, {"x": x, "y": y})
        if self.writes:
            getattr(self, self.writes).add_(1)
        whole = x.sum() + y.sum() if way else x.sum() * y.sum() - 1
        return whole + self.first - 2 * self.second

    def sizes(self) -> "list[tuple[int, int, int, int]]":
        return [typing.cast("tuple[int, int, int, int]", tuple(self._chosen.randint(2, 9) for _ in SIZES)) for _ in range(30)]


SIZES = ("x.shape[0]", "x.shape[1]", "y.shape[0]", "y.shape[1]")


def ways(seed: int, batch: Batch, folder: pathlib.Path) -> "tuple[int, int]":
    """How many calls were served, of how many."""
    module = Ways(seed)
    eager = copy.deepcopy(module)
    served, sizes = 0, module.sizes()
    with torch.no_grad():
        loaded = compiled(module, [torch.randn(sizes[0][:2]), torch.randn(sizes[0][2:])], batch, folder)
        for chosen in sizes:
            args = torch.randn(chosen[:2]), torch.randn(chosen[2:])
            try:
                found = loaded(*args)
            except ingot.Invalid:
                continue
            served += 1
            said = f"{module.condition} at {chosen}"
            torch.testing.assert_close(found, eager(*args), rtol=1e-3, atol=1e-3, msg=said)
    return served, len(sizes)


class Numbers(torch.nn.Module):
    """What sizes make, by numbers that are larger than the sizes a compiler runs, is an operand, a size, or a padding."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        r = random.Random(seed)
        size, by = r.choice(("n", "(n + 1)", "2 * n", "(-n)", "(n - 40)")), r.choice((3, 8, 32, 50, 64, 128, 200))
        number = r.choice((f"{size} // {by}", f"{size} % {by}", f"torch.sym_min({size}, {by})", f"torch.sym_max({size}, {by})", f"({size} + {by - 1}) // {by} * {by}"))
        use = r.choice(("x * {}", "torch.nn.functional.pad(x, (0, 0, 0, torch.sym_max({}, 0)))", "x.new_ones(torch.sym_max({}, 0) + 2) * x.sum()",
                        "torch.arange(torch.sym_max({}, 0) + 2) + x.sum()", "x[:torch.sym_max({}, 0)] * 2"))
        self.text = use.format(number)

    def forward(self, x: torch.Tensor) -> typing.Any:
        return eval(self.text, {"x": x, "n": x.shape[0], "torch": torch})


def numbers(seed: int, batch: Batch, folder: pathlib.Path) -> "tuple[int, int]":
    """How many calls were served, of how many."""
    module, served = Numbers(seed), 0
    sizes = (2, 3, 5, 9, 31, 33, 41, 49, 51, 63, 65, 127, 129, 199, 201, 260, 400)
    with torch.no_grad():
        loaded = compiled(module, [torch.randn(random.Random(seed).choice((5, 70)), 3)], batch, folder)
        for size in sizes:
            x = torch.randn(size, 3)
            try:
                found = loaded(x)
            except ingot.Invalid:
                continue
            served += 1
            torch.testing.assert_close(found, module(x), rtol=1e-3, atol=1e-3, msg=f"{module.text} at {size}")
    return served, len(sizes)


def run(first: int, until: float, most: int, build: str) -> "collections.Counter[str]":
    counts: "collections.Counter[str]" = collections.Counter()
    batch = Batch(pathlib.Path(build) / "tests" / "onnx" / "onnx_compile_batch")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + most if most else sys.maxsize):
            if time.monotonic() >= until:
                break
            try:
                if seed % 10 == 9:
                    which, module, args = control(seed)
                    with torch.no_grad():
                        compiled(module, args, batch, pathlib.Path(folder))
                    raise AssertionError(f"{which} has a file")
                if seed % 5 in (1, 3):
                    served, calls = (ways if seed % 5 == 3 else numbers)(seed, batch, pathlib.Path(folder))
                    counts.update({"programs": 1, "calls": calls, "served": served})
                    continue
                drawn = generate.make(seed)
                checker = Checker(program.load(drawn.text(), f"archive{seed}"), batch, pathlib.Path(folder))
                checker.archive()
            except Refused as refusal:
                said = str(refusal)
                if seed % 10 == 9 and not said.startswith("torch.export") and f"'{which}" not in said:
                    counts["failed"] += 1
                    print(f"failed: program {seed}: {which} is refused with: {said}", flush=True)
                counts["refused: " + ("by torch.export" if said.startswith("torch.export") else said)] += 1
                continue
            except Exception:
                counts["failed"] += 1
                print(f"failed: program {seed}\n{traceback.format_exc(limit=-2)}", flush=True)
                continue
            counts["programs"] += 1
            counts["calls"] += checker.report.calls.get("export", 0)
            counts["served"] += checker.report.served.get("export", 0)
            for failure in checker.report.failures:
                if failure["what"].endswith(IDENTITY):
                    counts["an argument that is given back is another object of its memory (docs/cli.md)"] += 1
                    continue
                counts["failed"] += 1
                print(f"failed: program {seed} at {failure['sizes']}: {failure['what']}\n{drawn.text()}", flush=True)
    batch.close()
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=0)
    parser.add_argument("--build", default=os.environ.get("INGOT_BUILD_DIR", str(HERE.parents[2] / "build" / "release")))
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    counts = run(options.seed, float("inf") if options.programs else time.monotonic() + options.seconds, options.programs, options.build)
    for name, count in counts.most_common(30):
        print(f"{count:6d}  {name}")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
