# SPDX-License-Identifier: Apache-2.0
"""Writes docs/coverage.md: of PyTorch's operators and of models, what is right, what is native and why the rest is not.

usage: tests/coverage.py [--models NAME,...] [--operators NAME,...] [-o FILE]      about ten minutes; nothing is downloaded

Operators are those of PyTorch's own sample inputs, in f32 (integers where there is no f32): one program each, of all samples
of up to 8,192 elements. Models are the architectures of tests/python/programs/test_architectures.py, and nets with convolutions, at two sizes.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import typing
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "tests" / "bench"), str(ROOT / "tests" / "fuzz" / "tensors")]

import test_architectures as architectures  # noqa: E402
import test_opinfo as samples  # noqa: E402
import torch  # noqa: E402
from tabulate import tabulate  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import ingot  # noqa: E402

# Answers nobody can repeat or memory nobody wrote: eager is not compared with itself.
UNREPEATABLE = re.compile(r"^(bernoulli|cauchy|empty.*|exponential|geometric|log_normal|multinomial|new_empty.*|normal.*|rand.*|uniform|nn\.functional\..*dropout.*)$")
INGOT = pathlib.Path(os.environ.get("INGOT_BUILD_DIR", ROOT / "build" / "release")) / "bin" / "ingot"
IDLE_S_MAX = 900.0   # until idle time has compared what compiles had no time for
HEADINGS = {"kernels": "kernels alone", "mixed": "kernels, and operators of PyTorch", "aten": "operators of PyTorch, called natively", "eager": "eager", "wrong": "wrong"}


class UNet(torch.nn.Module):
    """Down, through attention, and up again with what was there before: the shape of a denoiser."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.into = torch.nn.Conv2d(4, width, 3, padding=1)
        self.down = torch.nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.norms = torch.nn.ModuleList([torch.nn.GroupNorm(4, width), torch.nn.GroupNorm(4, 2 * width)])
        self.time = torch.nn.Linear(32, 2 * width)
        self.heads = torch.nn.MultiheadAttention(2 * width, 4, batch_first=True)
        self.up = torch.nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.out = torch.nn.Conv2d(2 * width, 4, 3, padding=1)

    def forward(self, x, t):
        angles = t[:, None] * torch.exp(-torch.arange(16, device=t.device) / 4)
        top = torch.nn.functional.silu(self.norms[0](self.into(x)))
        low = self.down(top) + self.time(torch.cat((angles.sin(), angles.cos()), -1))[:, :, None, None]
        low = torch.nn.functional.silu(self.norms[1](low))
        rows = low.flatten(2).transpose(1, 2)
        low = low + self.heads(rows, rows, rows, need_weights=False)[0].transpose(1, 2).reshape(low.shape)
        return self.out(torch.cat((self.up(low), top), 1))


class DiT(torch.nn.Module):
    """A transformer block whose norms are scaled and shifted by a condition."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(width, elementwise_affine=False) for _ in range(2)])
        self.heads = torch.nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU("tanh"), torch.nn.Linear(4 * width, width))
        self.condition = torch.nn.Sequential(torch.nn.SiLU(), torch.nn.Linear(width, 6 * width))

    def forward(self, x, c):
        shift, scale, gate, shift2, scale2, gate2 = self.condition(c)[:, None].chunk(6, -1)
        y = self.norms[0](x) * (1 + scale) + shift
        x = x + gate * self.heads(y, y, y, need_weights=False)[0]
        return x + gate2 * self.mlp(self.norms[1](x) * (1 + scale2) + shift2)


class Separable(torch.nn.Module):
    """Blocks of MobileNet: wide, by channel, narrow again."""

    def __init__(self) -> None:
        super().__init__()
        def block(inputs, outputs, stride):
            wide = 4 * inputs
            return torch.nn.Sequential(torch.nn.Conv2d(inputs, wide, 1, bias=False), torch.nn.BatchNorm2d(wide), torch.nn.ReLU6(),
                                       torch.nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), torch.nn.BatchNorm2d(wide), torch.nn.Hardswish(),
                                       torch.nn.Conv2d(wide, outputs, 1, bias=False), torch.nn.BatchNorm2d(outputs))
        self.blocks = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2, 1), block(8, 8, 1), block(8, 16, 2))

    def forward(self, x):
        return self.blocks(x).mean((2, 3))


def image(batch, size):
    return (torch.randn(batch, 3, 8 * size, 8 * size),)


def nets():
    from models import resnet

    return {"resnet18": (resnet()[0], image), "separable convolutions": (Separable(), image),
            "unet with attention": (UNet(), lambda batch, size: (torch.randn(batch, 4, 2 * size, 2 * size), torch.rand(batch))),
            "DiT block": (DiT(), lambda batch, size: (torch.randn(batch, size, 32), torch.randn(batch, 32)))}


def same(got, want) -> bool:
    leaves, spec = pytree.tree_flatten(got)
    wanted, wanted_spec = pytree.tree_flatten(want)
    if spec != wanted_spec:
        return False
    try:
        for a, b in zip(leaves, wanted):
            if isinstance(b, torch.Tensor):
                # PyTorch compares float8 by its bits alone.
                wide = (lambda t: t.float()) if b.is_floating_point() and b.itemsize == 1 and a.dtype == b.dtype else lambda t: t
                torch.testing.assert_close(wide(a), wide(b), rtol=1e-3, atol=1e-4, equal_nan=True)
            elif a != b and a == a:
                return False
    except AssertionError:
        return False
    return True


def reason_of(step) -> str:
    """The first reason of the report, in short."""
    for line in str(step.report()).splitlines():
        found = re.match(r"\s+eager: ([^:;(]+)", line)
        if found:
            return re.sub(r"%?\d+", "N", found.group(1)).strip()[:60]
    return "not served"


def steps_of(step) -> "tuple[int, collections.Counter]":
    """Kernels of the plan, and its calls of PyTorch's operators by name."""
    plan = str(step.as_text("plan"))
    called = collections.Counter(re.findall(r"\b(\w+::\w+)", "\n".join(line for line in plan.splitlines() if ": kernel " not in line)))
    return len(re.findall(r": kernel ", plan)), called


def is_served(step, *args, **kwargs) -> bool:
    before = ingot.stats()["native_calls"]
    step(*args, **kwargs)
    return ingot.stats()["native_calls"] > before


class Row(typing.NamedTuple):
    """One model's; artifacts are those that serve it."""

    name: str
    right: bool
    shares: "tuple[str, str]" = ("", "")
    others: str = ""
    artifacts: "tuple[str, ...]" = ()


def asked(*arguments) -> typing.Any:
    return json.loads(subprocess.run([INGOT, *arguments, "--json"], check=True, capture_output=True, text=True).stdout)


def variants_by_artifact() -> "dict[str, dict[str, typing.Any]]":
    keys = [entry["key"] for entry in asked("list")["entries"]]
    return {variant["artifact"]: variant for key in keys for variant in asked("inspect", key)["variants"]}


def is_left_to_idle_time(variant) -> bool:
    proof = variant["provenance"]["graph_proof"]
    return proof["sizes"] == 0 and bool(proof["skipped"])


def proved(variant) -> str:
    """At how many combinations of sizes the plan was held against the graph, or why at none."""
    proof = variant["provenance"]["graph_proof"]
    made_up = f", {', '.join(proof['unknown'])} made up" if proof["unknown"] else ""
    return f"{proof['sizes']} sizes{made_up}" if proof["sizes"] else f"not: {proof['skipped']}"


def agreed(variant) -> str:
    """Whether its code has given what eager gave, or why that was not compared."""
    noted = variant["agreed"]
    return "yes" if any(not one["why_not"] for one in noted) else f"not: {noted[-1]['why_not']}" if noted else "not compared"


def each(words) -> str:
    """Of some variants, mostly of one."""
    return "; ".join(dict.fromkeys(words))


def model_row(name, model, inputs) -> Row:
    step = ingot.compile(model, wait=True)
    right = True
    with torch.no_grad():
        for batch, size in 2 * ((2, 8), (3, 12)):
            args, kwargs = inputs(batch, size)
            right &= same(step(*args, **kwargs), model(*args, **kwargs))
        args, kwargs = inputs(2, 8)
        if not is_served(step, *args, **kwargs):
            return Row(name, right, others=reason_of(step))
        kernels, called = steps_of(step)
        with ingot.profile(step) as profile:
            for _ in range(5):
                step(*args, **kwargs)
        total = sum(s.total_s for s in profile.steps)
        native = sum(s.total_s for s in profile.steps if s.kind == "kernel")
    others = ", ".join(f"{n.split('::')[1]}{f' x{k}' if k > 1 else ''}" for n, k in called.most_common())
    share = kernels / max(1, kernels + sum(called.values()))
    artifacts = tuple(variant["artifact"] for variant in step.variants)
    return Row(name, right, (f"{share:.0%}", f"{native / total:.0%}" if total else ""), others, artifacts)


def architecture_row(name) -> Row:
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(0)
    facts, inputs = architectures.CASES[name]
    model = AutoModel.from_config(AutoConfig.for_model(name, **facts)).eval()
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    return model_row(name, model, lambda batch, size: ((), {**inputs(batch, size), "return_dict": False}))


def operator_row(info) -> "tuple[str, str]":
    """(heading, note) of one operator."""
    dtypes = [torch.float32] if torch.float32 in info.dtypes else sorted((d for d in info.dtypes if d not in samples.UNKNOWN), key=str)[:1]
    found = [s for s in info.sample_inputs(torch.device("cpu"), dtypes[0]) if all(t.numel() <= samples.NUMEL_MAX for t in samples.check.tensors([s.input, s.args, s.kwargs]))]
    calls, tensors = [], []
    for sample in found[:12]:
        calls.append(samples.Call(info, sample, len(tensors)))
        tensors += calls[-1].tensors

    def program(*given):
        results = []
        for call in calls:
            first, args, kwargs = call.arguments(given)
            results.append(call._function(first, *args, **kwargs))
        return results

    def copies():
        return [t.clone() for t in tensors]

    with torch.no_grad():
        want = program(*copies())
        step = ingot.compile(program, wait=True)
        right = all(same(step(*copies()), want) for _ in range(3))
        if not right:
            return "wrong", ""
        if not is_served(step, *copies()):
            return "eager", reason_of(step)
        kernels, called = steps_of(step)
    if not called:
        return "kernels", ""
    return "mixed" if kernels else "aten", ""


def operators(only) -> str:
    found: "dict[str, list[str]]" = collections.defaultdict(list)
    why: "dict[str, list[str]]" = collections.defaultdict(list)
    tried = 0
    for info in op_db:
        name = samples.full_name(info)
        if only and name not in only or UNREPEATABLE.match(name) or not info.dtypes - samples.UNKNOWN:
            continue
        print(f"coverage: {name}", file=sys.stderr, flush=True)
        try:
            heading, note = operator_row(info)
        except Exception as e:  # Samples that eager itself refuses, or that need another library.
            print(f"coverage: {name} left out: {type(e).__name__}: {str(e)[:100]}", file=sys.stderr)
            continue
        tried += 1
        found[heading].append(name)
        if heading == "eager":
            why[note].append(name)
    lines = [f"{tried} operators with PyTorch's own samples. A program of all samples of one operator runs as:", ""]
    lines += [tabulate([[HEADINGS[h], len(found[h]), f"{len(found[h]) / max(1, tried):.0%}"] for h in HEADINGS], headers=["as", "operators", "share"], tablefmt="github"), ""]
    for heading in ("kernels", "mixed", "aten", "wrong"):
        if found[heading]:
            lines += [f"**{HEADINGS[heading].capitalize()}**: {', '.join(f'`{n}`' for n in sorted(found[heading]))}", ""]
    lines += ["Eager, and why:", "", tabulate([[reason, len(names), ", ".join(f"`{n}`" for n in sorted(names))] for reason, names in sorted(why.items(), key=lambda w: -len(w[1]))],
                                               headers=["reason", "operators", "which"], tablefmt="github"), ""]
    return "\n".join(lines)


def models(only) -> str:
    rows: "list[Row]" = []
    for name in architectures.CASES:
        if not only or name in only:
            print(f"coverage: {name}", file=sys.stderr, flush=True)
            rows.append(architecture_row(name))
    for name, (model, inputs) in nets().items():
        if not only or name in only:
            print(f"coverage: {name}", file=sys.stderr, flush=True)
            rows.append(model_row(name, model.eval(), lambda batch, size, inputs=inputs: (inputs(batch, size), {})))
    ends = time.monotonic() + IDLE_S_MAX
    while time.monotonic() < ends:
        known = variants_by_artifact()
        if not any(is_left_to_idle_time(known[artifact]) for row in rows for artifact in row.artifacts if artifact in known):
            break
        time.sleep(5)  # On purpose: who is asked all the time is never idle.
    lines = []
    for row in rows:
        stood = [known[artifact] for artifact in row.artifacts if artifact in known]
        lines.append([row.name, "yes" if row.right else "NO", *row.shares, row.others, each(map(proved, stood)), each(map(agreed, stood))])
    return tabulate(lines, headers=["model", "right", "steps in kernels", "time in kernels", "PyTorch's, or why eager", "plan held against the graph", "agreed with eager"],
                    tablefmt="github")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="only these, separated by commas")
    parser.add_argument("--operators", help="only these, separated by commas")
    parser.add_argument("-o", "--output", default=str(ROOT / "docs" / "coverage.md"))
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    head = ["# What is native", "", "Made by `tests/coverage.py`, which runs everything below; do not edit. Everything that is not native gets eager's answer.", "",
            f"PyTorch {torch.__version__.split('+')[0]}, f32 on a CPU.", ""]
    text = "\n".join([*head, "## Models", "",
                      "Architectures of transformers in tiny configurations, and nets with convolutions; each at two sizes. Shares are of the plan's steps and of the time of a",
                      "call; sizes this small overstate what a call of PyTorch costs.", "", models(options.models and options.models.split(",")), "", "## Operators", "",
                      operators(options.operators and options.operators.split(","))])
    pathlib.Path(options.output).write_text(text)
    if "NO |" in text or "**Wrong**" in text:
        raise SystemExit("coverage: something is wrong; see the page")


if __name__ == "__main__":
    main()
