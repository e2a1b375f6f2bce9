# SPDX-License-Identifier: Apache-2.0
"""Random layouts at real call sites: a call is native if and only if a variant's guards hold, and always right."""

import random
import time

import pytest
import torch

SIZES = (0, 1, 2, 3, 5)


def fresh(write):
    """A function that no store knows: a closure cell of this run is part of its key."""
    salt = float(time.time_ns() % 1000003)

    def read(x, y):
        return torch.sin(x) * 2 + y.sum() + salt, x.sum(-1)

    def change(x, y):
        x.mul_(2)
        return y + salt, x

    return change if write else read


def laid(rng, sizes, dtype):
    """A tensor of these sizes: dense in some order, a window at an offset, expanded, or with odd strides; never negative."""
    kind = rng.choice(["dense", "permuted", "window", "expanded", "strided"])
    if kind == "dense":
        return torch.rand(sizes).to(dtype)
    if kind == "permuted":
        order = list(range(len(sizes)))
        rng.shuffle(order)
        made = torch.rand([sizes[d] for d in order]).to(dtype)
        return made.permute([order.index(d) for d in range(len(sizes))])
    if kind == "window":
        return torch.rand([size + 2 for size in sizes]).to(dtype)[tuple(slice(1, 1 + size) for size in sizes)]
    if kind == "expanded" and sizes:
        return torch.rand([1, *sizes[1:]]).to(dtype).expand(sizes)
    strides = [rng.randint(1, 7) for _ in sizes]
    extent = 1 + sum(max(size - 1, 0) * stride for size, stride in zip(sizes, strides))
    return torch.rand(extent + 3).to(dtype).as_strided(sizes, strides, rng.randint(0, 3))


def twin(tensor):
    """Equal elements, sizes and strides in memory of its own."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())) if tensor.numel() else 0
    return tensor.as_strided((extent,), (1,)).clone().as_strided(tensor.shape, tensor.stride())


def guards_of(tensor):
    """What an exact variant needs of a tensor, said anew: strides count unless it is empty."""
    return tensor.dtype, tuple(tensor.shape), tensor.stride() if tensor.numel() else (None,) * tensor.dim()


def order_of(sizes, strides):
    """The dims of more than one element from the innermost to the outermost, where they lie dense, else None."""
    dims, dense = sorted((d for d, size in enumerate(sizes) if size > 1), key=lambda d: strides[d]), 1
    for d in dims:
        if strides[d] != dense:
            return None
        dense *= sizes[d]
    return dims


def may_share(recorded, asked):
    """Whether a template of one recording may serve other sizes: of two or more where it has such, equal where it has equal ones,
    in memory laid out alike."""
    sizes = {}
    for (dtype, ours, strides), (other_dtype, theirs, other_strides) in zip(recorded, asked):
        if dtype != other_dtype or len(ours) != len(theirs):
            return False
        if any(a != b if min(a, b) < 2 else sizes.setdefault(a, b) != b for a, b in zip(ours, theirs)):
            return False
        if 0 in ours:
            continue
        order = order_of(ours, strides)
        differ = any(size > 1 and a != b for size, a, b in zip(ours, strides, other_strides))
        if differ and (order is None or order != order_of(theirs, other_strides)):
            return False
    return True


def resized(rng, *tensors):
    """Tensors of other sizes: equal sizes stay equal, and what is dense stays dense."""
    to = {size: rng.choice([2, 3, 5, 7]) if size > 1 else size for size in (*SIZES, 7)}
    for t in tensors:
        sizes, strides = [to[size] for size in t.shape], list(t.stride())
        dense = 1
        for d in order_of(t.shape, t.stride()) or ():
            strides[d], dense = dense, dense * sizes[d]
        extent = 1 + sum(max(size - 1, 0) * stride for size, stride in zip(sizes, strides))
        yield torch.rand(extent).to(t.dtype).as_strided(sizes, strides)


def overlaps(a, b):
    def places(t):
        if t.numel() == 0:
            return None
        return t.data_ptr(), t.data_ptr() + t.element_size() * (1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride())))

    one, two = places(a), places(b)
    return one is not None and two is not None and one[0] < two[1] and two[0] < one[1]


@pytest.mark.parametrize("dynamic", [False, None])
def test_native_if_and_only_if_guards_hold(ingot, dynamic):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    fn = fresh(write=False)
    step = ingot.compile(fn, wait=True, config={"variants_max": 4000, "shapes_max": 4000}, dynamic=dynamic)
    known, recorded, made = set(), [], []
    with torch.no_grad():
        for _ in range(100):
            way = rng.random() if made else 1
            if way < 0.35:
                x, y = (twin(t) for t in rng.choice(made))
            elif way < 0.65:
                x, y = resized(rng, *rng.choice(made))
            else:
                dtype = rng.choice([torch.float32, torch.float32, torch.float64])
                x = laid(rng, [rng.choice(SIZES) for _ in range(rng.randint(1, 3))], dtype)
                y = laid(rng, [rng.choice(SIZES) for _ in range(rng.randint(0, 2))], torch.float32)
            before = ingot.stats()["native_calls"]
            got = step(x, y)
            native = ingot.stats()["native_calls"] - before
            for found, expected in zip(got, fn(x, y)):
                torch.testing.assert_close(found, expected)
            key = (guards_of(x), guards_of(y))
            if dynamic is False:
                # The entry's limit in the daemon does not matter here: what is installed stays.
                assert native == (key in known), (seed, key, step.why_miss())
            else:
                shares = any(may_share(one, key) for one in recorded)
                assert native <= (shares or key in known), (seed, key)
                # A template may take the place of exact variants, and of sizes of 0 and 1 it asks more.
                if all(size > 1 for _, sizes, _ in key for size in sizes):
                    assert native >= shares, (seed, key, step.why_miss())
                if not native:
                    recorded.append(key)
            known.add(key)
            made.append((x, y))


def test_written_memory_is_never_shared(ingot):
    fn = fresh(write=True)
    step = ingot.compile(fn, wait=True)
    with torch.no_grad():
        step(torch.rand(6), torch.rand(6))
        served = 0
        for at in range(0, 13):
            for distance in (-7, -6, -1, 0, 1, 6, 7):
                if not 0 <= at + distance <= 14:
                    continue
                ours, theirs = torch.arange(20.0), torch.arange(20.0)
                x, y = ours[at:at + 6], ours[at + distance:at + distance + 6]
                shared = overlaps(x, y)
                before = ingot.stats()["native_calls"]
                got = step(x, y)
                native = ingot.stats()["native_calls"] - before
                expected = fn(theirs[at:at + 6], theirs[at + distance:at + distance + 6])
                torch.testing.assert_close(got[0], expected[0])
                torch.testing.assert_close(ours, theirs)
                assert native == (not shared)
                served += native
        assert served > 20


LAYOUTS = {
    "channels_last": lambda t: t.contiguous(memory_format=torch.channels_last),
    "transposed": lambda t: t.transpose(1, 3).contiguous().transpose(1, 3),
    "expanded": lambda t: t[:, :1].expand_as(t),
    "as_strided": lambda t: torch.cat([t.reshape(-1), t.reshape(-1)]).as_strided(t.shape, [2 * s for s in t.stride()], 1),
    "offset": lambda t: torch.cat([t, t])[t.shape[0]:],
    "empty": lambda t: t[:0],
    "contiguous": lambda t: t,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_equal_eager(ingot, layout):
    salt = float(len(layout))
    torch.manual_seed(1)
    conv = torch.nn.Conv2d(4, 6, 3, padding=1)

    def fn(x):
        y = torch.nn.functional.gelu(x) * 2 + salt
        return conv(y), y.mean((2, 3)), y.flatten(1), torch.softmax(y, 1)

    step = ingot.compile(fn, wait=True)
    with torch.no_grad():
        for sizes in ((2, 4, 5, 6), (2, 4, 5, 6), (3, 4, 6, 5), (3, 4, 6, 5)):
            x = LAYOUTS[layout](torch.rand(sizes))
            for got, expected in zip(step(x), fn(x)):
                torch.testing.assert_close(got, expected)
                assert got.stride() == expected.stride() or expected.numel() == 0
