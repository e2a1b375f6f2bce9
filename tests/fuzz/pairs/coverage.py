# SPDX-License-Identifier: Apache-2.0
"""What a walk has seen: of each pair of classes whether it was made, compared and fused; of each rule as what it was met."""

import collections
import hashlib
import json
import os
import pathlib
import time
import typing

import walk

MADE, COMPARED, FUSED, WRONG, UNSTEADY, MISSED = 1, 2, 4, 8, 16, 32   # flags of a pair
SAVE_SECONDS = 20.0


class Coverage:
    """Kept in a file, where one is given, and gone on with; a table with other classes begins anew."""

    def __init__(self, walked: walk.Walk, path: "pathlib.Path | None" = None) -> None:
        self._walk, self._path, self._saved = walked, path, time.monotonic()
        self.next = 0
        self.pairs: "dict[str, int]" = {}   # "producer>consumer", by their numbers
        self.counts: "collections.Counter[str]" = collections.Counter()
        self.producers: "collections.Counter[str]" = collections.Counter()   # programs compared, by rule
        self.consumers: "collections.Counter[str]" = collections.Counter()
        self.wrong: "dict[str, str]" = {}   # what was wrong, by place
        self._table = hashlib.sha256("\n".join([*walked.names, *walk.KINDS]).encode()).hexdigest()[:16]
        if path is not None and path.exists():
            self._merge(json.loads(path.read_text()))

    def _merge(self, kept: "dict[str, typing.Any]") -> None:
        if kept["table"] != self._table:
            return
        self.next = kept["next"]
        for pair, flags in kept["pairs"].items():
            self.pairs[pair] = self.pairs.get(pair, 0) | flags
        for name in ("counts", "producers", "consumers"):
            getattr(self, name).update(kept[name])
        self.wrong.update(kept["wrong"])

    def add_file(self, path: pathlib.Path) -> None:
        self._merge(json.loads(path.read_text()))

    def save_sometimes(self) -> None:
        if time.monotonic() - self._saved > SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        self._saved = time.monotonic()
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps({"table": self._table, "next": self.next, "pairs": self.pairs, "counts": self.counts, "producers": self.producers,
                                      "consumers": self.consumers, "wrong": self.wrong}))
        os.replace(beside, self._path)

    def add(self, place: int, answer: "dict[str, typing.Any]") -> None:
        self.counts["asked"] += 1
        if "text" not in answer:
            self.counts["not made"] += 1
            return
        flags = MADE | COMPARED * bool(answer.get("compared")) | FUSED * bool(answer.get("fused")) | WRONG * bool(answer.get("wrong"))
        flags |= UNSTEADY * bool(answer.get("unsteady")) | MISSED * bool(answer.get("missed"))
        self.counts.update(programs=1, calls=answer.get("compared", 0), fused=bool(answer.get("fused")), wrong=bool(answer.get("wrong")),
                           unsteady=answer.get("unsteady", 0), missed=bool(answer.get("missed")))
        if answer.get("wrong"):
            self.wrong[str(place)] = f"{answer['text']}: {answer['wrong'].splitlines()[0]}"
        if place < self._walk.count:
            producer, consumer, *_ = self._walk.at(place)
            pair = f"{producer}>{consumer}"
            self.pairs[pair] = self.pairs.get(pair, 0) | flags
        else:
            self.counts["triples"] += 1
        if flags & COMPARED:
            rules = answer["rules"]
            self.producers.update(rules[:-1])
            self.consumers.update(rules[1:])

    def summary(self) -> str:
        rules = [str(rule) for members in self._walk.table.values() for rule in members]
        consumed = [str(rule) for i in self._walk.consumers for rule in self._walk.table[self._walk.names[i]]]
        has = {what: sum(1 for flags in self.pairs.values() if flags & flag) for what, flag in
               (("made", MADE), ("fused", FUSED), ("compared", COMPARED), ("wrong", WRONG))}
        counts = self.counts
        of_programs = (f"{counts['asked']} places of {self._walk.count}: {counts['programs']} programs ({counts['triples']} triples), {counts['calls']} native calls "
                       f"compared, {counts['unsteady']} with nothing to compare, {counts['fused']} programs in one kernel, {counts['missed']} not served at some "
                       f"size, {counts['wrong']} wrong")
        of_pairs = (f"{self._walk.pairs} pairs of {len(self._walk.names)} classes: {has['made']} made, {has['compared']} compared, {has['fused']} fused into one "
                    f"kernel, {has['wrong']} wrong")
        said = [of_programs, of_pairs]
        for what, met, of in (("producer", self.producers, rules), ("consumer", self.consumers, consumed)):
            missing = sorted(set(of) - set(met))
            said.append(f"rules compared as {what}: {len(set(of) & set(met))} of {len(set(of))}"
                        + (f"; missing: {', '.join(missing[:40])}{', ...' * (len(missing) > 40)}" if missing else ""))
        if self.counts["asked"] >= self._walk.count:
            names = self._walk.names
            never = [f"{names[p]} > {names[c]}" for p in range(len(names)) for c in self._walk.consumers if not self.pairs.get(f"{p}>{c}", 0) & COMPARED]
            said.append(f"{len(never)} pairs never compared" + "".join(f"\n  {pair}" for pair in never[:200]))
        said += [f"wrong at {place}: {what}" for place, what in sorted(self.wrong.items(), key=lambda kept: int(kept[0]))]
        return "\n".join(said)


def total(folder: pathlib.Path, walked: walk.Walk) -> Coverage:
    """All parts together."""
    found = Coverage(walked)
    for path in sorted(folder.glob("part-*.json")):
        found.add_file(path)
    return found


