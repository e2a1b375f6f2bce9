# SPDX-License-Identifier: Apache-2.0
"""What became of each fault: one line of JSON each, and the score that they add up to."""

import collections
import json
import pathlib
import typing

import drawing

COUNTED = ("killed", "survived", "open")
"""The others (`uncompiled`, `unchanged`, `equivalent`) are drawn again. `open` is what unit tests do not see, as long as the others were not asked."""


class Verdict(typing.NamedTuple):
    name: str
    folder: str
    path: str
    line: int
    operator: str
    before: str
    after: str
    outcome: str      # killed, survived, open, uncompiled, unchanged, equivalent
    by: str           # what killed it, or how
    seconds: float
    said: str

    @classmethod
    def of(cls, mutant: drawing.Mutant, outcome: str, by: str, seconds: float, said: str) -> "Verdict":
        return cls(mutant.name, mutant.folder, mutant.path, mutant.line, mutant.edit.operator, mutant.before, mutant.after, outcome, by, round(seconds, 1), said)


class Equivalents:
    """Faults that nobody can tell from the program, each with the reason: blocks of `# why`, `path`, `-before`, `+after`."""

    def __init__(self, text: str) -> None:
        self._reasons: "dict[tuple[str, str, str], str]" = {}
        for block in text.split("\n\n"):
            lines = block.strip("\n").splitlines()
            kinds = {mark: "\n".join(line[1:].strip() for line in lines if line.startswith(mark)) for mark in "#-+"}
            path = next((line for line in lines if line[0] not in "#-+"), "")
            if path:
                if not all(kinds.values()):
                    raise ValueError(f"equivalent.txt: a block without reason, before or after: {block}")
                self._reasons[path, kinds["-"], kinds["+"]] = kinds["#"]

    def faults(self) -> "typing.Iterator[tuple[str, str, str]]":
        """Path, lines before and lines after."""
        yield from self._reasons

    def reason(self, path: str, before: str, after: str) -> str:
        return self._reasons.get((path, _stripped(before), _stripped(after)), "")


def _stripped(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines())


class State:
    """The lines of a run. What a fault, or a check without a fault, was found to be last counts."""

    def __init__(self, path: "pathlib.Path | None", seed: int) -> None:
        self._path, self.seed = path, seed
        self.verdicts: "dict[str, Verdict]" = {}
        self.sound: "dict[str, tuple[bool, float]]" = {}   # checks without a fault: whether they pass, in how many seconds
        for text in path.read_text().splitlines() if path is not None and path.exists() else ():
            self._take(json.loads(text))

    def add(self, verdict: Verdict) -> None:
        self._write({"mutant": verdict._asdict()})

    def add_check(self, name: str, passes: bool, seconds: float) -> None:
        self._write({"check": name, "passes": passes, "seconds": round(seconds, 1)})

    def counted(self, folder: str, equivalents: Equivalents) -> int:
        return sum(one.folder == folder and outcome(one, equivalents) in COUNTED for one in self.verdicts.values())

    def _write(self, line: "dict[str, typing.Any]") -> None:
        self._take(line)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps({"seed": self.seed, **line}) + "\n")

    def _take(self, line: "dict[str, typing.Any]") -> None:
        if line.get("seed", self.seed) != self.seed:
            raise ValueError(f"{self._path} is of seed {line['seed']}, not {self.seed}")
        if "mutant" in line:
            self.verdicts[line["mutant"]["name"]] = Verdict(**line["mutant"])
        elif "check" in line:
            self.sound[line["check"]] = (line["passes"], line["seconds"])


def outcome(verdict: Verdict, equivalents: Equivalents) -> str:
    """What was found to be equivalent afterwards counts no more."""
    found = verdict.outcome in ("survived", "open") and equivalents.reason(verdict.path, verdict.before, verdict.after)
    return "equivalent" if found else verdict.outcome


def report(state: State, equivalents: Equivalents, all_folders: "typing.Iterable[str]") -> str:
    """The score by folder, what killed how many, and each survivor."""
    rows, total = [], collections.Counter("")
    for folder in all_folders:
        counts = collections.Counter(outcome(one, equivalents) for one in state.verdicts.values() if one.folder == folder)
        total.update(counts)
        rows.append(_row(folder, counts))
    by = collections.Counter(one.by for one in state.verdicts.values() if one.outcome == "killed")
    left = [f"{one.path}:{one.line}: {one.operator}, {one.outcome} ({one.name})\n-{one.before}\n+{one.after}" for one in state.verdicts.values()
            if outcome(one, equivalents) in ("survived", "open")]
    unsound = [name for name, (passes, _) in state.sound.items() if not passes]
    lines = [f"seed {state.seed}", "| folder | killed | of | open | equivalent |", "|---|---|---|---|---|", *rows, _row("all", total), "",
             *(f"  {count:4d} killed by {name}" for name, count in by.most_common())]
    if unsound:
        lines += ["", f"fail without a fault, and were not used: {', '.join(unsound)}"]
    return "\n".join([*lines, *(["", "survivors", *left] if left else [])])


def _row(name: str, counts: "collections.Counter[str]") -> str:
    return f"| {name} | {counts['killed']} | {sum(counts[one] for one in COUNTED)} | {counts['open']} | {counts['equivalent'] + counts['unchanged']} |"
