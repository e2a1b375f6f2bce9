# SPDX-License-Identifier: Apache-2.0
"""Random tensor programs (tests/fuzz/tensors) as archives of torch.export: compiled by `ingot compile` with open sizes, loaded, called, and held against
eager. Conditions, loops, scans and maps among them have no rule, and have to be refused by name. Programs whose sizes choose a way (a branch of Python's)
have to be eager's wherever they are served, and those whose buffers share memory in every call. So have programs that compute with sizes, at sizes far from those
that a compiler runs them at. Programs that write their arguments and buffers, wherever those lie, and give them back, are held against the exported program,
strict or not, decomposed or not: values, strides, objects, and what later writes to results change.

usage: tests/fuzz/archives [SECONDS] [--seed N] [--programs N] [--build DIR]
"""

import argparse
import collections
import copy
import inspect
import linecache
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


class Archived(torch.nn.Module):
    """A program as torch.export takes it."""

    def __init__(self, function: "typing.Callable[..., typing.Any]") -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: torch.Tensor) -> typing.Any:
        return self._function(*args)


class Refused(Exception):
    """Of a program that has no file: by whom, and why."""


def compiled(module: torch.nn.Module, args: "list[torch.Tensor]", batch: Batch, folder: pathlib.Path, strict: bool = False, decomposed: bool = False) -> typing.Any:
    """The loaded file, and the exported program."""
    path, output = folder / "program.pt2", folder / "program.ingot"
    dims: "tuple[typing.Any, ...]" = tuple({d: torch.export.Dim.AUTO for d in range(a.dim()) if a.shape[d] > 1} for a in args)
    if any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(module.forward).parameters.values()):
        dims = (dims,)
    try:
        exported = torch.export.export(module, tuple(args), dynamic_shapes=dims, strict=strict)
        exported = exported.run_decompositions() if decomposed else exported
        torch.export.save(exported, str(path))
    except Exception as error:  # torch.export raises whatever its passes meet
        raise Refused(f"torch.export: {type(error).__name__}") from None
    answer = batch.compile({"program": str(path), "output": str(output)})
    if answer.get("code") in ("internal", "crash"):
        raise AssertionError(f"{answer['code']}: {answer['error']}")
    if "error" in answer:
        raise Refused(f"{answer['code']}: {answer['error'].split(': ', 2)[-1][:90]}")
    return ingot.load(str(output)), exported


class Checker(check.Checker):
    """The mode that others have not."""

    def __init__(self, module: typing.Any, batch: Batch, folder: pathlib.Path) -> None:
        super().__init__(ingot, module)
        self._batch, self._folder = batch, folder

    def archive(self) -> None:
        with torch.no_grad():
            sizes = [pair for pair in self._sizes() if 0 not in pair] or self._sizes()
            loaded, _ = compiled(Archived(self._module.program), self._module.inputs(*max(sizes), 1), self._batch, self._folder)
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
        loaded, _ = compiled(module, [torch.randn(sizes[0][:2]), torch.randn(sizes[0][2:])], batch, folder)
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
        loaded, _ = compiled(module, [torch.randn(random.Random(seed).choice((5, 70)), 3)], batch, folder)
        for size in sizes:
            x = torch.randn(size, 3)
            try:
                found = loaded(x)
            except ingot.Invalid:
                continue
            served += 1
            torch.testing.assert_close(found, module(x), rtol=1e-3, atol=1e-3, msg=f"{module.text} at {size}")
    return served, len(sizes)


LAYOUTS = ("torch.arange(4.0)", "torch.arange(8.0)[::2]", "torch.arange(9.0)[1::2]", "torch.arange(24.0).view(4, 6)[:, :3]", "torch.arange(6.0).view(2, 3).t()",
           "torch.arange(12.0).view(2, 3, 2)[..., 1]", "torch.tensor(3.0)", "torch.arange(3)[None].expand(2, 3)")
WRITES = ("x.add_(1)", "x.mul_(2)", "x[1:].add_(x.shape[0])", "self.one.add_(1)", "self.one.mul_(2)", "self.two.add_(x.sum().to(self.two.dtype))", "self.two.zero_()",
          "y.copy_(y.flip(0))", "self.one.copy_(self.one.flip(0) if self.one.dim() else self.one + y.sum().to(self.one.dtype))")
RESULTS = ("x", "y", "self.one", "self.two", "x + 1", "x.sum() + self.one", "[self.one * 1, x]", "x[1:]", "self.two.view(-1) if self.two.is_contiguous() else y * 2",
           "(x * 2 if x.shape[0] % 2 else x - 1)", "(y if y.shape[0] > 3 else y + x.shape[0])", "x[x.shape[0] - 2]")


class Lives(torch.nn.Module):
    """Arguments and buffers are written, and given back, as they are or in part, more than once; sizes may choose."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        r = random.Random(seed)
        for name in ("one", "two"):
            self.register_buffer(name, eval(r.choice(LAYOUTS[:-1] if r.random() < 0.8 else LAYOUTS)))
        chosen = [*r.sample(RESULTS, r.randint(1, 3))]
        chosen += r.choices(chosen, k=r.randint(0, 2))
        self.text = "; ".join([*r.sample(WRITES, r.randint(0, 3)), f"result = ({', '.join(chosen)},)"])
        self.strict, self.decomposed = r.random() < 0.4, r.random() < 0.4
        # What dynamo reads is a function of its own.
        known: "dict[str, typing.Any]" = {"torch": torch}
        source = f"def forward(self, x, flat_args):\n    y = flat_args\n    {self.text}\n    return result\n"
        path = pathlib.Path(tempfile.gettempdir()) / f"ingot-lives-{os.getpid()}-{seed}.py"
        linecache.cache[str(path)] = (len(source), None, source.splitlines(True), str(path))
        exec(compile(source, str(path), "exec"), known)
        self._forward = known["forward"]

    def forward(self, x: torch.Tensor, flat_args: torch.Tensor) -> typing.Any:
        return self._forward(self, x, flat_args)


def history(function: typing.Any, sizes: "list[tuple[int, int]]", served: "list[bool]") -> "list[typing.Any]":
    """What calls gave, all that was given before, and who is whom, while somebody writes to results; calls that are not served are left out."""
    held, seen = [], []
    for at, (rows, others) in enumerate(sizes):
        x, y = torch.arange(float(rows)) - at, torch.arange(float(others)) * 2
        if len(served) <= at:
            try:
                tensors = torch.utils._pytree.tree_leaves((x, y, function(x, y)))
            except ingot.Invalid:
                served.append(False)
                continue
            served.append(True)
        elif served[at]:
            tensors = torch.utils._pytree.tree_leaves((x, y, function(x, y)))
        else:
            continue
        if tensors[-1].is_contiguous():
            tensors[-1].add_(3)
        held.append(tensors)
        seen.append((rows, others, [[t.tolist() for t in of] for of in held], [t.stride() for t in tensors], [[t is u for u in tensors] for t in tensors]))
    return seen


def lives(seed: int, batch: Batch, folder: pathlib.Path) -> "tuple[int, int]":
    """How many calls were served, of how many."""
    module = Lives(seed)
    sizes = [(6, 5), (3, 3), (4, 6), (9, 2), (6, 5), (2, 8)]
    with torch.no_grad():
        loaded, exported = compiled(module, [torch.randn(6), torch.randn(5)], batch, folder, module.strict, module.decomposed)
        served: "list[bool]" = []
        found = history(loaded, sizes, served)
        expected = history(exported.module(), sizes, served)
    for f, e in zip(found, expected):
        assert f == e, f"{module.text} {'strict ' * module.strict}{'decomposed ' * module.decomposed}buffers {module.one.stride()} {module.two.stride()}\n  {f}\n  {e}"
    return sum(served), len(served)


KINDS = {1: numbers, 3: ways, 4: lives, 6: numbers, 7: lives, 8: ways}


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
                if seed % 10 in KINDS:
                    served, calls = KINDS[seed % 10](seed, batch, pathlib.Path(folder))
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
