# SPDX-License-Identifier: Apache-2.0
"""Draws, compiles and calls models one after the other, and says of each on a line of JSON what became of it. See __main__.py."""

import collections
import json
import pathlib
import random
import re
import sys
import tempfile
import typing

import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "onnx")]
sys.path.append(str(pathlib.Path(sys.prefix) / "apart"))   # where tools/setup puts the `onnx` package

import chains  # noqa: E402
import damage  # noqa: E402
import disputes  # noqa: E402
import judges  # noqa: E402
import layers  # noqa: E402
import nodes  # noqa: E402
import torch  # noqa: E402
import windows  # noqa: E402
from batch import Batch  # noqa: E402
from case import Case, Drawn  # noqa: E402

import ingot  # noqa: E402

SINGLE = [*nodes.TABLE, *layers.TABLE, *windows.TABLE]
Answers = "list[np.ndarray]"


def drawn(seed: int, kinds: "set[str]") -> Case:
    d = Drawn(seed)
    single = [row for row in SINGLE if not kinds or row[0] in kinds]
    chained = [row for row in chains.TABLE if not kinds or row[0] in kinds]
    if single and (not chained or d.chance(0.6)):
        label, since, generate = d.choice(single)
        if d.opset < since:
            d.opset = d.random.randint(since, 23)
    else:
        label, generate = d.choice(chained)
    generate(d)
    case = Case(label, d)
    if d.chance(0.4):
        sizes = sorted({s for i in d.inputs.values() for s in i.shape if s > 1})
        case.open = {s: f"size{s}" for s in sizes if d.chance(0.7)}
    return damage.change(case, random.Random(seed)) if d.chance(0.2) else case


def reason(text: str) -> str:
    """What a refusal is about, without what differs from case to case."""
    text = re.sub(r"^.*?\.onnx: ", "", text)
    text = re.sub(r"node '[^']*' \((\w+), opset \d+\)", r"\1", re.sub(r"the node of '[^']*' \((\w+), opset \d+\)", r"\1", text))
    return re.sub(r"'[^']*'|-?\d+", "_", text)[:110]


class Child:
    def __init__(self, build: str, keep: str) -> None:
        self.batch = Batch(pathlib.Path(build) / "tests" / "onnx" / "onnx_compile_batch")
        self.work = tempfile.TemporaryDirectory()
        self.keep = pathlib.Path(keep) if keep else None
        self.calls: "collections.Counter[str]" = collections.Counter()

    def compiled(self, case: Case, fixed: bool) -> "tuple[dict[str, typing.Any], pathlib.Path]":
        program, output = (pathlib.Path(self.work.name) / name for name in ("case.onnx", "case.ingot"))
        program.write_bytes(case.model(fixed).SerializeToString())
        return self.batch.compile({"program": str(program), "output": str(output)}), output

    def model(self, case: Case, seed: int) -> "tuple[str, str]":
        """(outcome, why)"""
        answer, output = self.compiled(case, fixed=not case.open)
        if case.open and answer.get("code") in ("unsupported", "invalid"):
            self.calls["with open sizes refused"] += 1
            case.open = {}
            answer, output = self.compiled(case, fixed=True)
        if "error" in answer:
            if answer["code"] in ("crash", "internal"):
                return ("crashed" if answer["code"] == "crash" else "internal"), reason(answer["error"])
            return "refused", reason(answer["error"])
        function = ingot.load(str(output))
        found: "collections.Counter[str]" = collections.Counter()
        whys = {}
        for turn in range(3 if case.open else 2):
            sizes = {} if turn != 2 else {s: case.drawn.choice((1, s + 1, s + 3)) for s in case.open}
            outcome, why = self.call(case, function, case.call(seed * 7 + turn, sizes))
            found[outcome] += 1
            whys.setdefault(outcome, why)
        self.calls.update(found)
        for outcome in ("wrong", "disputed", "right", "refused call", "unjudged"):
            if found[outcome]:
                return ("refused" if outcome == "refused call" else outcome), whys[outcome]
        raise AssertionError(found)

    def call(self, case: Case, function: typing.Any, feeds: "dict[str, np.ndarray]") -> "tuple[str, str]":
        given = {n: torch.from_numpy(np.array(a)) for n, a in feeds.items()}
        try:
            results = function(**given)
            first = {n: np.array(t.numpy()) for n, t in results.items()}
            for tensor in results.values():
                tensor.fill_(77)
            again = {n: np.array(t.numpy()) for n, t in function(**given).items()}
        except (ingot.errors.Error, RuntimeError) as error:
            return "refused call", reason(str(error))
        for name, array in first.items():
            if array.tobytes() != again[name].tobytes():
                return "wrong", f"{name}: a result shares memory with the file, or a call is not like the one before"
        return self.judged(case, [first[n] for n in case.drawn.outputs], feeds)

    def judged(self, case: Case, found: Answers, feeds: "dict[str, np.ndarray]") -> "tuple[str, str]":
        model, agree, why_not = case.model(fixed=False), False, ""
        left_out = []
        levels = 1 if any(n.op_type in judges.QUANTIZES for n in case.drawn.nodes) else 0
        for name, judge in judges.JUDGES.items():
            if case.changed and judge is judges.reference:
                continue  # It takes what is no model.
            try:
                wanted = judge(model, feeds)
            except judges.Unanswered as error:
                why_not = str(error)
                continue
            difference = self.differs(case, found, wanted, levels, name)
            if difference is None:
                agree = True
                continue
            explained = disputes.explained(case, name)
            if explained is None and self.is_exact(case, model, found, feeds, levels):
                explained = "rounding: the answer is that of f64"
            if explained is None:
                return "wrong", f"{name}: {difference}"
            left_out.append(f"{name}, {explained}")
        if left_out:
            return "disputed", left_out[0]
        return ("right", "") if agree else ("unjudged", reason(why_not))

    def differs(self, case: Case, found: Answers, wanted: Answers, levels: int, judge: str, as_type: bool = True) -> "str | None":
        for name, a, b in zip(case.drawn.outputs, found, wanted):
            # The reference computes some results in another type than ONNX says.
            difference = judges.difference(a, b, levels, as_type and judge != "reference")
            if difference:
                return f"{name}: {difference}"
        return None

    def is_exact(self, case: Case, model: typing.Any, found: Answers, feeds: "dict[str, np.ndarray]", levels: int) -> bool:
        try:
            return self.differs(case, found, judges.exact(model, feeds), levels, "exact", as_type=False) is None
        except judges.Unanswered:
            return False

    def say(self, seed: int, kinds: "set[str]") -> None:
        case = drawn(seed, kinds)
        self.calls.clear()
        outcome, why = self.model(case, seed)
        line = {"seed": seed, "kind": case.label, "outcome": outcome, "why": why, "calls": dict(self.calls)}
        if outcome in ("wrong", "crashed", "internal"):
            line["text"] = case.text()
            if self.keep is not None:
                self.keep.mkdir(parents=True, exist_ok=True)
                (self.keep / f"{seed}.txt").write_text(f"{outcome}: {why}\n{case.text()}\n")
                (self.keep / f"{seed}.onnx").write_bytes(case.model().SerializeToString())
        print(json.dumps(line), flush=True)


def main() -> None:
    first, kinds, build, keep = int(sys.argv[1]), {k for k in sys.argv[2].split(",") if k}, sys.argv[3], sys.argv[4]
    torch.set_num_threads(1)
    child = Child(build, keep)
    for seed in range(first, first + (1 << 40)):
        child.say(seed, kinds)


if __name__ == "__main__":
    main()
