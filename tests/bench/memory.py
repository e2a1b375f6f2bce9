# SPDX-License-Identifier: Apache-2.0
"""Kernels that memory bounds, one after the other: memory.py SECONDS WAY... [--only NAME]...; prints one JSON line.

WAY: eager, ingot, inductor, memory (an operator with the same traffic that only moves bytes).
Each kernel is called at 512x4096 and 64x50257, in f32 and bf16, on the threads that PyTorch takes.
"""

import argparse
import json
import time

import torch

import ingot

SIZES = [(512, 4096), (64, 50257)]


def rope(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


# Function, and what it takes beside x.
KERNELS = {
    "softmax": (lambda x: torch.softmax(x, -1), ()),
    "masked softmax": (lambda x, mask: torch.softmax(x.masked_fill(mask, float("-inf")), -1), ("mask",)),
    "layer norm": (lambda x, w, b: torch.nn.functional.layer_norm(x, x.shape[-1:], w, b), ("row", "row")),
    "rms norm": (lambda x, w: w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)), ("row",)),
    "silu mul": (lambda x, y: torch.nn.functional.silu(x) * y, ("like",)),
    "rope": (rope, ("heads", "half", "half")),
    "transpose": (lambda x: x.t().contiguous(), ()),
    "cumsum": (lambda x: x.cumsum(-1), ()),
    "column sum": (lambda x: x.sum(0), ()),
}


def operands(kinds, size, dtype):
    torch.manual_seed(0)
    x = torch.randn(size, dtype=dtype)
    if kinds[:1] == ("heads",):  # as many elements, in 32 heads of 64 or 61 of 128
        tokens, heads, width = (512, 32, 128) if size[1] == 4096 else (392, 64, 128)
        x = torch.randn(1, heads, tokens, width, dtype=dtype)
        return (x, *(torch.randn(1, 1, tokens, width, dtype=dtype) for _ in kinds[1:]))
    make = {"mask": lambda: torch.rand(size) < 0.3, "row": lambda: torch.randn(size[1], dtype=dtype),
            "like": lambda: torch.randn(size, dtype=dtype)}
    return (x, *(make[kind]() for kind in kinds))


def traffic(args, result):
    """A call that reads the arguments and writes the result once."""
    out = torch.empty_like(result)
    if result.numel() < args[0].numel():
        return lambda *args: args[0].view(-1).view(torch.int64).sum()
    if len(args) > 1 and args[1].shape == result.shape and args[1].dtype == result.dtype:
        return lambda *args: torch.add(args[0], args[1], out=out)
    return lambda *args: out.view(-1).copy_(args[0].view(-1))


def compiled(fn, args, ways):
    """What to call for each way, warm, and the bytes that a call must move."""
    torch._dynamo.reset()
    result = fn(*args)
    makers = {"eager": lambda: fn, "ingot": lambda: ingot.compile(fn, wait=True), "memory": lambda: traffic(args, result),
              "inductor": lambda: torch.compile(fn, dynamic=False)}
    runs = {way: makers[way]() for way in ways}
    for run in runs.values():
        for _ in range(3):
            run(*args)
    return runs, sum(t.numel() * t.element_size() for t in (*args, result))


def prepare(only, ways):
    """(title, runs by way, arguments, bytes) of each kernel."""
    prepared = []
    for name, (fn, kinds) in KERNELS.items():
        for size in SIZES:
            for dtype in (torch.float32, torch.bfloat16):
                title = f"{name} {size[0]}x{size[1]} {'f32' if dtype == torch.float32 else 'bf16'}"
                if not only or any(part in title for part in only):
                    args = operands(kinds, size, dtype)
                    runs, moved = compiled(fn, args, ways)
                    prepared.append((title, runs, args, moved))
    return prepared


def measure(runs, args, moved, seconds):
    times = {way: [] for way in runs}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for way, run in runs.items():
            began = time.perf_counter()
            run(*args)
            run(*args)
            times[way].append((time.perf_counter() - began) / 2)
    medians = {way: sorted(t)[len(t) // 2] for way, t in times.items()}
    return {way: {"median_s": s, "gb_s": moved / s / 1e9} for way, s in medians.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=float)
    parser.add_argument("ways", nargs="+")
    parser.add_argument("--only", action="append", help="kernels whose title contains this")
    options = parser.parse_args()
    with torch.no_grad():
        prepared = prepare(options.only, options.ways)
        print(json.dumps({title: measure(runs, args, moved, options.seconds) for title, runs, args, moved in prepared}))


if __name__ == "__main__":
    main()
