# SPDX-License-Identifier: Apache-2.0
"""What a program writes into its arguments, native code writes where it lies: values, memory that is left alone, order, aliases, errors."""

import random

import pytest
import torch
import torch.nn.functional as F

HEADS, ROOM, DEPTH, TOKENS = 3, 8, 4, 2


def turned(x):
    return torch.cat((-x[..., DEPTH // 2:], x[..., :DEPTH // 2]), -1)


def rope(x, c):
    return x * c.cos() + turned(x) * c.sin()


def into_caches(k, v, c, keys, values, at):
    keys.index_copy_(2, at, rope(k, c))
    values.index_copy_(2, at, v)
    return keys.sum(-1) + values.sum(-1)


def by_subscript(k, v, c, keys, values, at):
    keys[:, :, at] = rope(k, c)
    values[:, :, at] = v
    return keys * 1


def counted(k, v, c, keys, values, count):
    at = torch.arange(TOKENS) + count
    count.add_(TOKENS)
    keys.index_copy_(2, at, rope(k, c))
    values.index_copy_(2, at, v)
    return keys.sum(-1)


def by_slices(k, v, c, keys, values, at):
    keys[:, :, 3:3 + TOKENS] = rope(k, c)
    values[0] = v.sum(2, keepdim=True)[1] + values[1]
    return values.sum() + at


def element_by_element(k, v, c, keys, values, at):
    keys.mul_(0.5).add_(values)
    values.copy_(v.mean((1, 2), keepdim=True))
    return keys + at.sum()


def arguments(dtype=torch.float32, tokens=TOKENS, seed=0):
    made = torch.Generator().manual_seed(seed)

    def draw(*sizes):
        return torch.randn(*sizes, generator=made).to(dtype)
    return [draw(2, HEADS, tokens, DEPTH), draw(2, HEADS, tokens, DEPTH), draw(tokens, DEPTH), draw(2, HEADS, ROOM, DEPTH), draw(2, HEADS, ROOM, DEPTH)]


def call_both(step, function, args):
    """Result and arguments after native and eager calls on the same values; an error counts as a result."""
    def call(what):
        given = [value.clone() for value in args]
        try:
            with torch.no_grad():
                result = what(*given)
        except Exception as error:
            return (type(error), given)
        return (result, given)
    return call(step), call(function)


def compare(got, wanted, **tolerance):
    for one, other in zip(got[1], wanted[1]):
        torch.testing.assert_close(one, other, **tolerance)
    if isinstance(wanted[0], type):
        assert got[0] is wanted[0]
    else:
        torch.testing.assert_close(got[0], wanted[0], **tolerance)


# Kernels at most (cosines and sines take one), and neither copies nor operators of PyTorch.
CASES = [(into_caches, torch.tensor([5, 1]), 3), (by_subscript, torch.tensor([-1, 0]), 3), (counted, torch.tensor(3), 6), (by_slices, torch.tensor([0]), 6),
         (element_by_element, torch.tensor([1]), 5)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("function, at, kernels", CASES, ids=[case[0].__name__ for case in CASES])
def test_written_where_it_lies(ingot, function, at, kernels, dtype):
    step = ingot.compile(function, wait=True)
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype is torch.bfloat16 else {}
    for seed in range(3):
        got, wanted = call_both(step, function, [*arguments(dtype, seed=seed), at])
        compare(got, wanted, **tolerance)
    counts = step.variants[-1]
    assert counts["aten_steps"] == 0 and counts["copy_steps"] == 0 and counts["native_steps"] <= kernels, step.as_text("plan")


@pytest.mark.parametrize("function, bad", [(into_caches, 8), (into_caches, -1), (by_subscript, 8), (by_subscript, -9), (counted, 8)])
def test_one_index_out_of_range_is_eager_error(ingot, function, bad):
    """Nothing has been written when it is found, so that eager runs, with its error and what that leaves behind."""
    def one(*args):
        return function(*args)
    args = arguments(tokens=1)
    step = ingot.compile(one if function is not counted else one_counted, wait=True)
    good, wrong = (torch.tensor(2), torch.tensor(bad)) if function is counted else (torch.tensor([2]), torch.tensor([bad]))
    target = one if function is not counted else one_counted
    for at in (good, good, wrong, good):
        compare(*call_both(step, target, [*args, at]))


def one_counted(k, v, c, keys, values, count):
    at = torch.arange(1) + count
    count.add_(1)
    keys.index_copy_(2, at, rope(k, c))
    values.index_copy_(2, at, v)
    return keys.sum(-1)


def test_a_later_index_out_of_range_raises(ingot):
    """Of several, some may have been written: the caller is told so."""
    step = ingot.compile(into_caches, wait=True)
    args = arguments()
    for at in (torch.tensor([1, 2]), torch.tensor([2, 3])):
        compare(*call_both(step, into_caches, [*args, at]))
    with pytest.raises((IndexError, RuntimeError)), torch.no_grad():
        step(*args, torch.tensor([1, 8]))


def test_attention_reads_what_was_written(ingot):
    def attend(q, k, v, keys, values, at, mask):
        keys.index_copy_(2, at, k)
        values.index_copy_(2, at, v)
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
    step = ingot.compile(attend, wait=True)
    keys, values = torch.zeros(2, HEADS, ROOM, DEPTH), torch.zeros(2, HEADS, ROOM, DEPTH)
    mine, theirs = (keys, values), (keys.clone(), values.clone())
    for i in range(ROOM):
        q, k, v = (torch.randn(2, HEADS, 1, DEPTH) for _ in range(3))
        at, mask = torch.tensor([i]), (torch.arange(ROOM) <= i).view(1, 1, 1, ROOM)
        with torch.no_grad():
            torch.testing.assert_close(step(q, k, v, *mine, at, mask), attend(q, k, v, *theirs, at, mask))
        torch.testing.assert_close(mine, theirs)
    assert step.variants[-1]["aten_steps"] == 0, step.as_text("plan")


class Programs:
    """Random programs over two caches, what goes into them, and where."""

    SOURCES = ["k", "k * 2", "rope(k, c)", "k + v", "k.sin() * v", "a[:, :, 1:3] * 3", "b[:, :, 2:4] - k", "b[:, :, at]", "a[:, :, at] + k", "k.sum(-1, keepdim=True).expand_as(k)"]
    WRITES = ["{t}.index_copy_(2, at, {s})", "{t}[:, :, at] = {s}", "{t}[:, :, 3:5] = {s}", "{t}[:, :, 1:8:4] = {s}", "{t}[1, :, 2:4] = ({s})[0]", "{t}[0] = {t}[1]",
              "{t}.copy_({u})", "{t}.add_({u})", "{t}.mul_(1.5)", "{t}.add_({t}.mean())", "{t}.sub_({t}.flip(0))", "{t}.transpose(2, 3).index_copy_(3, at, ({s}).transpose(2, 3))",
              "{t}[0].mul_(2)", "{t}.view(-1)[5:9] = 1", "{t}.index_add_(2, at, {s})", "{t}[:, :, at] += {s}", "{t}[at] = 2", "{t}.clamp_(-1, 1)", "torch.sin_({t})",
              "{t}[0][:, at] = ({s})[0]", "{t}[1].index_copy_(1, at, ({s})[0])", "{t}[0, 1:][:, 2:4].copy_(({s})[0, 1:])", "{t}[:, 1:, 4:].transpose(1, 2)[:, 1:3] = 7",
              "{t}[1, 2, at[0]] = 3", "{t}[:, :, 2:6][:, :, at % 4] = {s}"]
    READS = ["{t} * 1", "{t}[0].sum()", "{t}[:, :, at].exp()", "{t}.transpose(0, 1) + {u}.transpose(0, 1)", "{t}.mean(-1)", "{t}"]

    def __init__(self, seed):
        draw = random.Random(seed)
        lines, results = [], []
        for i in range(draw.randint(1, 5)):
            t, u = draw.choice(["ab", "ba"])
            lines.append(draw.choice(self.WRITES).format(t=t, u=u, s=draw.choice(self.SOURCES)))
            if draw.random() < 0.5:
                lines.append(f"r{i} = " + draw.choice(self.READS).format(t=t, u=u))
                results.append(f"r{i}")
        self.text = "def program(k, v, c, a, b, at):\n" + "".join(f"    {line}\n" for line in lines) + f"    return ({', '.join(results)}{',' if results else ''})\n"
        space = {"torch": torch, "rope": rope}
        exec(self.text, space)
        self.function = space["program"]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(ingot, seed):
    program = Programs(seed)
    step = ingot.compile(program.function, wait=True)
    for at in ([5, 1], [0, 7], [1, 0]):
        given = [*arguments(seed=seed), torch.tensor(at) % 2 if "[at]" in program.text else torch.tensor(at)]
        got, wanted = call_both(step, program.function, given)
        try:
            compare(got, wanted, rtol=1e-4, atol=1e-4)
        except AssertionError as error:
            raise AssertionError(program.text) from error


@pytest.mark.parametrize("function", [into_caches, by_slices, by_subscript])
def test_memory_that_two_arguments_share(ingot, function):
    """Eager's answer, whatever shares memory with what is written."""
    step = ingot.compile(function, wait=True)
    at = torch.tensor([5, 1])
    for _ in range(2):
        compare(*call_both(step, function, [*arguments(), at]))

    def shared(what):
        args = arguments()
        whole = torch.arange(2 * HEADS * ROOM * DEPTH + 4.0)
        args[3], args[4] = (whole[i:i + 2 * HEADS * ROOM * DEPTH].view(2, HEADS, ROOM, DEPTH) for i in (0, 4))
        with torch.no_grad():
            return what(*args, at), whole
    torch.testing.assert_close(shared(step), shared(function))
