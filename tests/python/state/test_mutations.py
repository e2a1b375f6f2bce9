# SPDX-License-Identifier: Apache-2.0
"""Keys that never lie: for each kind of change a program starts three times, each a process of its own: before, unchanged,
and changed. What matters must miss and give the new answer; what does not must hit."""

import pytest
from mutations import HITS, MISSES, PROGRAM, Case
from zygote import Zygote


@pytest.fixture(scope="module")
def zygotes(session_store):
    made = [Zygote(session_store.env, seed) for seed in (1, 2, 3)]
    yield made
    for one in made:
        one.close()


def _replaced(files, edits):
    files = dict(files)
    for file, old, new in edits:
        assert old in files[file], f"{old!r} is not in {file}"
        files[file] = files[file].replace(old, new)
    return files


class Program:
    """One case's program in its folder; ``number`` keeps its modules apart from those of other cases."""

    def __init__(self, folder, number: str) -> None:
        self.folder, self.number = folder, number

    def write(self, files) -> None:
        self.folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (self.folder / name.replace("$", self.number)).write_text(text.replace("$", self.number).lstrip("\n"))

    def run(self, zygote, before="", environ=None):
        named = {name.replace("$", self.number): value for name, value in (environ or {}).items()}
        return zygote.run(self.folder, f"main{self.number}", before, named)


def _start_three_times(zygotes, folder, number: str, case: Case):
    files = _replaced(PROGRAM, case.base)
    program = Program(folder / "first", number)
    program.write(files)
    before = program.run(zygotes[0], case.base_before)
    assert before["right"] and before["captures"] == 1, before["report"]
    again = program.run(zygotes[1], case.base_before)
    assert again["right"] and (again["captures"], again["hits"], again["native"]) == (0, 1, 2), (again["why"], again["report"])
    if case.moves:
        program = Program(folder / "second", number)
    program.write(_replaced(files, case.edits))
    return before, program.run(zygotes[2], case.base_before + "\n" + case.before, case.environ)


@pytest.mark.parametrize("name", MISSES)
def test_what_matters_misses(zygotes, tmp_path, name):
    number = f"m{list(MISSES).index(name)}"
    before, after = _start_three_times(zygotes, tmp_path, number, MISSES[name])
    assert after["right"], f"a stale answer: {after['report']}"
    assert after["hits"] == 0, f"served from before the change: {after['report']}"
    assert MISSES[name].same_answer or after["answer"] != before["answer"], "the change must matter"
    assert after["why"] not in ("", "never stored"), after["why"]


@pytest.mark.parametrize("name", HITS)
def test_what_does_not_matter_hits(zygotes, tmp_path, name):
    number = f"h{list(HITS).index(name)}"
    _, after = _start_three_times(zygotes, tmp_path, number, HITS[name])
    assert after["right"], after["report"]
    assert (after["captures"], after["hits"], after["native"]) == (0, 1, 2), (after["why"], after["report"])
