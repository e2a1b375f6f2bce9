# SPDX-License-Identifier: Apache-2.0
"""Random ONNX models, compiled and called, beside the reference evaluator of the `onnx` package and, where it is installed, onnxruntime.

usage: tests/fuzz/onnx [SECONDS] [--seed N] [--models N] [--kinds WORD,...] [--keep FOLDER] [--state FILE] [--build DIR]
  --models    so many of them, whatever time it takes
  --kinds     operators, or "sizes", "layers", "branches", "loops", "scans", "old"
  --keep      where models that fail are written, as they are and as text
  --state     goes on behind the model that another run ended with, and adds to its counts
Prints counts, what was refused and why, and whose answer was not taken and why (disputes.py); exits 1 when one is wrong, ends the compiler or
the caller, or is refused with `internal`.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
FAILURES = ("wrong", "crashed", "internal")


def merged(counts: "dict[str, collections.Counter[str]]", line: "dict[str, str]") -> None:
    counts["models"][line["outcome"]] += 1
    counts["kinds"][line["kind"]] += 1
    counts["calls"].update(line["calls"])  # type: ignore[arg-type]
    if line.get("why"):
        counts[line["outcome"]][line["why"]] += 1


def run(options: argparse.Namespace, first: int, until: float, counts: "dict[str, collections.Counter[str]]") -> int:
    """The number of the model that comes next. A child runs them, so that one that ends it is one failure."""
    last, at = first + options.models if options.models else None, first
    while time.monotonic() < until and (last is None or at < last):
        child = subprocess.Popen([sys.executable, str(HERE / "child.py"), str(at), options.kinds, options.build, options.keep], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for text in child.stdout:
            line = json.loads(text)
            merged(counts, line)
            at = line["seed"] + 1
            if line["outcome"] in FAILURES:
                print(f"{line['outcome']}: model {line['seed']}: {line['why']}\n{line['text']}", flush=True)
            if options.state and at % 50 == 0:
                save(options.state, at, counts)
            if time.monotonic() >= until or (last is not None and at >= last):
                break
        else:
            if child.wait() != 0:
                counts["models"]["crashed"] += 1
                print(f"crashed: model {at} ended its process with {child.returncode}: --seed {at} --models 1", flush=True)
                at += 1
        child.terminate()
        child.wait()
    return at


def save(path: str, at: int, counts: "dict[str, collections.Counter[str]]") -> None:
    pathlib.Path(path).write_text(json.dumps({"next": at, "counts": counts}))


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", type=int, default=0)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--keep", default="")
    parser.add_argument("--state", default="")
    parser.add_argument("--build", default=os.environ.get("INGOT_BUILD_DIR", str(HERE.parents[2] / "build" / "release")))
    options = parser.parse_args()
    counts: "dict[str, collections.Counter[str]]" = collections.defaultdict(collections.Counter)
    first = options.seed
    if options.state and pathlib.Path(options.state).exists():
        before = json.loads(pathlib.Path(options.state).read_text())
        first = before["next"]
        for name, count in before["counts"].items():
            counts[name].update(count)
    until = float("inf") if options.models else time.monotonic() + options.seconds
    at = run(options, first, until, counts)
    if options.state:
        save(options.state, at, counts)
    print(f"{sum(counts['models'].values())} models up to {at}: " + ", ".join(f"{n} {c}" for n, c in sorted(counts["models"].items())))
    print("calls: " + ", ".join(f"{n} {c}" for n, c in sorted(counts["calls"].items())))
    for outcome in ("refused", "disputed", "unjudged", *FAILURES):
        for why, count in counts[outcome].most_common(25):
            print(f"  {outcome} {count:5d}  {why}")
    return 1 if any(counts["models"][f] for f in FAILURES) else 0


if __name__ == "__main__":
    sys.exit(main())
