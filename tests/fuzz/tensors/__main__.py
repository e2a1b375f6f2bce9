# SPDX-License-Identifier: Apache-2.0
"""Random tensor programs, native against eager, on a store of its own.

usage: tests/fuzz/tensors SECONDS [--seed N] [--keep FOLDER]   new programs; a failing one is made small and kept
       tests/fuzz/tensors CASE.py ...                          checks kept programs again
"""

import argparse
import collections
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import typing
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(HERE))

import torch  # noqa: E402

import child  # noqa: E402
import generate  # noqa: E402
import program  # noqa: E402
import shrink  # noqa: E402
import statements  # noqa: E402

SHRINK_SECONDS = 90.0


class Campaign:
    """Checks programs and adds up what they say."""

    def __init__(self, child_: child.Child, keep: "pathlib.Path | None") -> None:
        self._child, self._keep = child_, keep
        self.programs, self.failed = 0, 0
        self._calls: "collections.Counter[str]" = collections.Counter()
        self._served: "collections.Counter[str]" = collections.Counter()
        self._operators: "set[str]" = set()
        self.reasons: "collections.Counter[str]" = collections.Counter()
        self._kept: "collections.Counter[str]" = collections.Counter()    # programs that have a statement
        self._fused: "collections.Counter[str]" = collections.Counter()   # those in which it is in a kernel with something else

    def check(self, text: str, modes: "typing.Sequence[str]", made: "program.Program | None" = None) -> "list[dict[str, typing.Any]]":
        report = self._child.check(text, modes)
        if made is not None:
            self._count(made, report.get("kernels", []))
        self.programs += 1
        self._calls.update(report["calls"])
        self._served.update(report["served"])
        self._operators.update(report["operators"])
        self.reasons.update(line.strip() for reason in report["reasons"] for line in reason.splitlines() if "eager: " in line or "last miss" in line)
        return report["failures"]

    def check_random(self, seed: int, made: program.Program) -> None:
        modes = program.MODES if seed % 10 else ("traced",)
        failures = self.check(made.text(f"Seed {seed}."), modes, made)
        if not failures:
            return
        self.failed += 1
        first = failures[0]
        print(f"seed {seed}: {first['mode']} {first['sizes']}: {first['what']}", flush=True)
        if self._keep is None:
            return
        alone = [first["mode"]] if first["mode"] in (*program.MODES, "traced") else list(modes)
        small = shrink.shrunk(dataclasses.replace(made, modes=tuple(alone)), lambda p: _alike(first, self._child.check(p.text(), p.modes)["failures"]),
                              SHRINK_SECONDS)
        self._keep.mkdir(parents=True, exist_ok=True)
        path = self._keep / f"seed_{seed}.py"
        path.write_text(small.text(f"{first['mode']}: {first['what'].splitlines()[0]}".replace("\\", "/").replace('"', "'")))
        print(f"  kept as {path}\n" + "".join(f"    {line}\n" for line in small.text().splitlines()[6:]), flush=True)

    def _count(self, made: program.Program, kernels: "list[str]") -> None:
        """Which statements were kept, and of which an operator became part of a kernel of several."""
        for statement, operators in zip(made.statements, made.operators()):
            self._kept[statement] += 1
            self._fused[statement] += any(f"_{op}_" in f"_{name}_" and name != op for op in operators for name in kernels)

    def statements_text(self) -> str:
        """Weight, programs that kept it, and programs that fused it, of every statement."""
        lines = [f"{'weight':>7} {'kept':>5} {'fused':>5}  statement"]
        for _, weight, texts in statements.KINDS:
            for text, times in sorted(collections.Counter(texts).items(), key=lambda item: -self._kept[item[0]]):
                lines.append(f"{weight * times / len(texts):7.2f} {self._kept[text]:5} {self._fused[text]:5}  {text}")
        return "\n".join(lines)

    def check_kept(self, path: pathlib.Path) -> None:
        text = path.read_text()
        failures = self.check(text, program.load(text, path.stem).MODES)
        self.failed += bool(failures)
        for failure in failures:
            print(f"{path}: {failure['mode']} {failure['sizes']}: {failure['what']}", flush=True)

    def summary(self) -> str:
        lines = [f"{self.programs} programs, {self.failed} failed; {len(self._operators)} operators seen"]
        for mode, calls in sorted(self._calls.items()):
            lines.append(f"  {mode}: {self._served[mode]} of {calls} calls served natively from the second on ({self._served[mode] / calls:.0%})")
        every = {text for _, _, texts in statements.KINDS for text in texts}
        lines.append(f"  {len(every & set(self._kept))} of {len(every)} statements kept in some program, {sum(map(bool, self._fused.values()))} fused in some")
        total = sum(self._calls.values())
        lines.append(f"  all: {sum(self._served.values()) / max(total, 1):.1%}")
        return "\n".join(lines)


def _alike(one: "dict[str, typing.Any]", others: "list[dict[str, typing.Any]]") -> bool:
    """Whether a program still fails as it did: in the same mode, and by the same kind of difference."""
    def kind(failure: "dict[str, typing.Any]") -> str:
        what = failure["what"]
        return next((k for k in ("elements", "strides", "sizes", "type", "share memory", "one object", "lies", "raised", "result is") if k in what), what[:20])

    return any(other["mode"] == one["mode"] and kind(other) == kind(one) for other in others)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/fuzz tensors", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="seconds, or kept programs")
    parser.add_argument("--programs", type=int, help="so many programs, however long they take")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first program (default: the clock)")
    parser.add_argument("--keep", type=pathlib.Path, default=ROOT / "tests" / "python" / "cases" / "tensors", help="where small failing programs go")
    parser.add_argument("--no-keep", action="store_true", help="leaves failing programs as they are")
    parser.add_argument("--without", type=re.compile, help="leaves out programs with a line that matches this")
    parser.add_argument("--statements", action="store_true", help="prints how often each statement was kept and fused")
    parser.add_argument("--reasons", action="store_true", help="prints why calls were not served")
    return parser.parse_args()


def check_random(campaign: Campaign, asked: argparse.Namespace) -> None:
    ends = time.monotonic() + (float(asked.what[0]) if asked.what else float("inf"))
    seed = asked.seed
    while time.monotonic() < ends and (asked.programs is None or seed < asked.seed + asked.programs):
        made = generate.make(seed)
        if asked.without is None or not any(asked.without.search(line) for line in made.body):
            campaign.check_random(seed, made)
        seed += 1


def main() -> int:
    asked = arguments()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    keep = None if asked.no_keep else asked.keep
    with tempfile.TemporaryDirectory(prefix="ingot-fuzz") as folder:
        env = {**os.environ, "INGOT_STORE_DIR": os.path.join(folder, "store")}
        process = child.Child(env)
        campaign = Campaign(process, keep)
        try:
            if asked.programs is not None or asked.what and asked.what[0].isdigit():
                check_random(campaign, asked)
            else:
                for path in asked.what:
                    campaign.check_kept(pathlib.Path(path))
        finally:
            process.close()
            subprocess.run([str(ROOT / "build" / "release" / "bin" / "ingot"), "daemon", "stop"], env=env, capture_output=True)
    print(campaign.summary())
    if asked.statements:
        print(campaign.statements_text())
    if asked.reasons:
        for reason, count in campaign.reasons.most_common(30):
            print(f"  {count}x {reason[:300]}")
    return 1 if campaign.failed else 0


if __name__ == "__main__":
    sys.exit(main())
