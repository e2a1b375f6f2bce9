# SPDX-License-Identifier: Apache-2.0
"""Which fault comes when: lines in an order that a seed fixes, and of each line one edit."""

import hashlib
import pathlib
import random
import re
import typing

import operators
import tokens

# What this build does not run.
LEFT_OUT = {"client/native/cpython/code_table.cpp": "runs under another interpreter",
            "client/native/cpython/instruction_312.cpp": "runs under another interpreter"}


class Mutant(typing.NamedTuple):
    folder: str
    path: str          # from the root
    line: int          # from 1
    edit: operators.Edit
    before: str        # the line
    nth: int           # of the lines of the file that read so
    after: str         # what the lines of the edit become

    @property
    def name(self) -> str:
        """The same in later versions of the file, as long as they have the line."""
        said = "\0".join((self.path, self.before.strip(), str(self.nth), self.edit.operator, self.after.strip()))
        return hashlib.sha256(said.encode()).hexdigest()[:12]

    def diff(self) -> str:
        return f"--- {self.path}:{self.line}\n-{self.before}\n+{self.after}"


def _test_sources(root: pathlib.Path, folder: str) -> "set[str]":
    """Stems of what a folder's tests are made of."""
    text = (root / folder / "CMakeLists.txt").read_text()
    listed = " ".join(re.findall(r"ingot_test\(.*?SOURCES(.*?)LINK", text, re.DOTALL))
    return {pathlib.Path(one).stem for one in listed.split()}


def files(root: pathlib.Path, folder: str) -> "list[str]":
    tests = _test_sources(root, folder)
    return [name for path in sorted((root / folder).glob("*")) if path.suffix in (".cpp", ".h") and path.stem not in tests and "_test" not in path.stem
            and (name := path.relative_to(root).as_posix()) not in LEFT_OUT]


def _chance(*said: typing.Any) -> str:
    return hashlib.sha256("\0".join(map(str, said)).encode()).hexdigest()


def _mutant(folder: str, path: str, source: tokens.Source, edit: operators.Edit, nth: int) -> Mutant:
    line = source.line_of(edit.start)
    last = source.line_of(edit.end)
    begin, end = source.text.rfind("\n", 0, edit.start) + 1, source.text.find("\n", edit.end)
    changed = source.text[begin: edit.start] + edit.text + source.text[edit.end: end]
    return Mutant(folder, path, line + 1, edit, "\n".join(source.line_text(one) for one in range(line, last + 1)), nth, changed)


def _of_file(root: pathlib.Path, folder: str, path: str, seed: int) -> "typing.Iterator[tuple[str, Mutant]]":
    source = tokens.Source((root / path).read_text())
    by_line: "dict[int, list[operators.Edit]]" = {}
    for edit in operators.edits(source):
        by_line.setdefault(source.line_of(edit.start), []).append(edit)
    seen: "dict[str, int]" = {}
    for line in sorted(by_line):
        text = source.line_text(line).strip()
        nth = seen[text] = seen.get(text, -1) + 1
        chance = _chance(seed, path, text, nth)
        # An operator first: constants have two edits for each digit, guards few.
        chosen = random.Random(chance)
        kinds = sorted({edit.operator for edit in by_line[line]})
        operator = chosen.choices(kinds, [operators.WEIGHTS.get(kind, operators.WEIGHT) for kind in kinds])[0]
        edit = chosen.choice([edit for edit in by_line[line] if edit.operator == operator])
        yield chance, _mutant(folder, path, source, edit, nth)


def drawn(root: pathlib.Path, folder: str, seed: int) -> "list[Mutant]":
    """One for each line of a folder that an operator applies to. A line keeps its place among the others when those change."""
    found = [one for path in files(root, folder) for one in _of_file(root, folder, path, seed)]
    return [mutant for _, mutant in sorted(found, key=lambda pair: pair[0])]
