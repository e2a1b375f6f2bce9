# SPDX-License-Identifier: Apache-2.0
"""What plants faults (tests/fuzz/mutants): drawing is a function of the seed, edits differ and are taken back, no test is forgotten, scores add up."""

import json
import pathlib
import re
import subprocess
import sys

import fuzzers
import pytest
from conftest import ROOT

SAMPLE = """\
// SPDX-License-Identifier: Apache-2.0
#include <vector>
/* if (a && b) { return 1; } */
constexpr int kMost = 8;
struct Shape { std::vector<int> sizes, strides; };
int At(const Shape& shape, int i, int j) {
  const char* said = "a < b && c";  // 1 < 2
  if (i < 0 || j >= kMost) return -1;
  if (Overlaps(shape)) return 0;
  int total = shape.sizes[i] * shape.strides[j] - 1;
  for (size_t k = 0; k + 1 < shape.sizes.size(); ++k) {
    if (!Counts(k, i)) continue;
    total += shape.sizes[k];
  }
  Note(said, total);
  return total == 0 ? i : j;
}
"""


@pytest.fixture(scope="module")
def mutants():
    return fuzzers.load("mutants")


@pytest.fixture
def root(tmp_path):
    """A folder with a source, a header, and tests of which none is drawn from."""
    folder = tmp_path / "compiler" / "loop"
    folder.mkdir(parents=True)
    for name in ("at.cpp", "at.h", "at_test.cpp", "helper.cpp"):
        (folder / name).write_text(SAMPLE)
    (folder / "CMakeLists.txt").write_text("ingot_test(loop_test\n  SOURCES at_test.cpp helper.cpp\n  LINK ingot_loop)\n")
    return tmp_path


def edits(mutants, text):
    return mutants.drawing.operators.edits(mutants.drawing.tokens.Source(text))


def test_every_operator_gives_text_that_differs(mutants):
    found = edits(mutants, SAMPLE)
    assert {edit.operator for edit in found} == set(mutants.drawing.operators.OPERATORS)
    assert all(edit.apply(SAMPLE) != SAMPLE for edit in found)
    assert len({(edit.operator, edit.apply(SAMPLE)) for edit in found}) == len(found)


def test_comments_texts_and_includes_are_left_alone(mutants):
    code = mutants.drawing.tokens.Source(SAMPLE)
    quiet = [line for line, text in enumerate(SAMPLE.splitlines()) if text.startswith(("//", "/*", "#include"))]
    for edit in edits(mutants, SAMPLE):
        assert code.line_of(edit.start) not in quiet
        assert '"a < b && c"' in edit.apply(SAMPLE) and "// 1 < 2" in edit.apply(SAMPLE)


@pytest.mark.parametrize("operator, line", [
    ("predicate_dropped", "  if (i < 0) return -1;"), ("predicate_dropped", "  if (j >= kMost) return -1;"), ("predicate_dropped", "    if (Counts(k, i)) continue;"),
    ("condition", "  if (false) return -1;"), ("alias_ignored", "  if (false) return 0;"), ("comparison_loosened", "  if (i <= 0 || j >= kMost) return -1;"),
    ("swapped_index", "  int total = shape.sizes[j] * shape.strides[i] - 1;"), ("swapped_name", "  int total = shape.strides[i] * shape.strides[j] - 1;"),
    ("off_by_one", "  int total = shape.sizes[i] * shape.strides[j];"), ("swapped_operands", "    if (!Counts(i, k)) continue;"), ("statement_removed", "    {}"),
    ("constant", "constexpr int kMost = 9;"), ("early_return", "  return {};"), ("step_skipped", "    if (!Counts(k, i)) break;"),
    ("off_by_one", "  for (size_t k = 0; k < shape.sizes.size(); ++k) {"), ("connective", "  if (i < 0 && j >= kMost) return -1;")])
def test_operators(mutants, operator, line):
    assert line in [changed for edit in edits(mutants, SAMPLE) if edit.operator == operator for changed in edit.apply(SAMPLE).splitlines()]


def test_all_sources_have_edits_that_differ(mutants):
    for folder in mutants.folders.LIBRARIES:
        for path in mutants.drawing.files(ROOT, folder):
            text = (ROOT / path).read_text()
            assert all(edit.apply(text) != text for edit in edits(mutants, text)), path


def test_drawing_is_a_function_of_the_seed(mutants, root):
    one, again, other = (mutants.drawing.drawn(root, "compiler/loop", seed) for seed in (1, 1, 2))
    assert one == again
    assert [mutant.name for mutant in one] != [mutant.name for mutant in other]
    assert {mutant.path for mutant in one} == {"compiler/loop/at.cpp", "compiler/loop/at.h"}


def test_a_line_keeps_its_place_when_others_change(mutants, root):
    before = [mutant.name for mutant in mutants.drawing.drawn(root, "compiler/loop", 1) if "kMost = " not in mutant.before]
    path = root / "compiler" / "loop" / "at.cpp"
    path.write_text(path.read_text().replace("constexpr int kMost = 8;", "\nconstexpr int kMost = 64;"))
    assert [mutant.name for mutant in mutants.drawing.drawn(root, "compiler/loop", 1) if "kMost = " not in mutant.before] == before


def test_a_fault_is_taken_back(mutants, root):
    where = mutants.tree.Tree(root, root, 1)
    mutant = next(one for one in mutants.drawing.drawn(root, "compiler/loop", 1) if one.path.endswith(".cpp"))
    for error in (None, KeyboardInterrupt, SystemExit):
        try:
            with where.planted(mutant):
                assert (root / mutant.path).read_text() != SAMPLE
                if error:
                    raise error
        except BaseException as raised:
            assert type(raised) is error
        assert (root / mutant.path).read_text() == SAMPLE


def test_objects_are_compared_by_their_bytes(mutants, tmp_path):
    where = mutants.tree.Tree(tmp_path, tmp_path, 1)
    where.build.mkdir(parents=True)
    (where.build / "a.o").write_bytes(b"one")
    where.remember_objects()
    assert not where.changed_objects()
    (where.build / "a.o").write_bytes(b"one")
    assert not where.changed_objects()
    (where.build / "a.o").write_bytes(b"other")
    assert where.changed_objects()


def test_a_command_ends_with_its_limit(mutants, tmp_path):
    assert mutants.tree.run(["sh", "-c", "echo said; sleep 60"], tmp_path, 0.5).status == -1
    # A child in a group of its own holds the pipe.
    assert mutants.tree.run(["bash", "-c", "set -m; sleep 60 & echo $! >child; wait"], tmp_path, 2).status == -1
    stat = pathlib.Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"
    done = mutants.tree.run(["sh", "-c", "echo said; exit 3"], tmp_path, 60)
    assert (done.status, done.said) == (3, "said\n")


def test_no_test_is_forgotten(mutants):
    """Each test of CMake's, each file of tests/python and each fuzzer is in the table once for a folder, or is said to be elsewhere."""
    lists = subprocess.run(["git", "ls-files", "*CMakeLists.txt", "client/lib/*.cmake"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    text = "\n".join((ROOT / path).read_text() for path in lists)
    made = set(re.findall(r"\bingot_test\((\w+)", text)) | {f"fuzz.{noun}" for noun in re.findall(r"\bingot_fuzz\((\w+) MUTATIONS \d", text)} | {"recorder_python"}
    made |= {path.stem for path in (ROOT / "tests" / "python").glob("*/test_*.py")}
    made |= {f".{path.parent.name}" for path in (ROOT / "tests" / "fuzz").glob("*/__main__.py")}
    assert made == set(mutants.folders.everything())
    for folder in mutants.folders.LIBRARIES:
        listed = mutants.folders.checks(folder)
        assert len(listed) == len(set(listed)) and {name[1:] for name in listed if name.startswith(".")} <= set(mutants.folders.FUZZERS)


def test_tests_of_the_same_words_come_first(mutants):
    assert mutants.folders.checks("client/native", "client/native/places/object_digest.cpp")[:2] == ["recorder_python", "test_digests"]


def verdict(mutants, name, folder, outcome, by="", before="a", after="b"):
    return mutants.score.Verdict(name, folder, f"{folder}/x.cpp", 1, "constant", before, after, outcome, by, 1.0, "")


def test_scores_add_up_and_go_on(mutants, tmp_path):
    path, equivalents = tmp_path / "state" / "lines", mutants.score.Equivalents("")
    state = mutants.score.State(path, 7)
    for name, outcome in (("1", "killed"), ("2", "survived"), ("3", "uncompiled"), ("4", "unchanged"), ("5", "killed"), ("6", "open")):
        state.add(verdict(mutants, name, "compiler/loop", outcome, "loop_test" if outcome == "killed" else ""))
    state.add(verdict(mutants, "2", "compiler/loop", "killed", "test_values"))   # with --again
    state.add_check("loop_test", True, 2.0)
    again = mutants.score.State(path, 7)
    assert again.verdicts == state.verdicts and again.sound == {"loop_test": (True, 2.0)}
    said = mutants.score.report(again, equivalents, ["compiler/loop", "compiler/plan"])
    assert "| compiler/loop | 3 | 4 | 1 | 1 |" in said and "| compiler/plan | 0 | 0 | 0 | 0 |" in said and "2 killed by loop_test" in said
    assert "survivors" in said and ", open (6)" in said and "(2)" not in said
    assert all(json.loads(line)["seed"] == 7 for line in path.read_text().splitlines())
    with pytest.raises(ValueError, match="is of seed 7, not 8"):
        mutants.score.State(path, 8)


def test_what_is_equivalent_does_not_count(mutants):
    state = mutants.score.State(None, 1)
    state.add(verdict(mutants, "1", "compiler/loop", "survived", before="  a", after="  b"))
    state.add(verdict(mutants, "2", "compiler/loop", "survived", before="  c", after="  d"))
    listed = mutants.score.Equivalents("# A head.\n\n# nobody reads it\ncompiler/loop/x.cpp\n-a\n+b\n")
    said = mutants.score.report(state, listed, ["compiler/loop"])
    assert "| compiler/loop | 0 | 1 | 0 | 1 |" in said and "-  c" in said and "-  a" not in said
    with pytest.raises(ValueError, match="without reason"):
        mutants.score.Equivalents("compiler/loop/x.cpp\n-a\n+b\n")


def test_what_is_listed_as_equivalent_is_there(mutants):
    """A line that changes takes its entry with it."""
    listed = (ROOT / "tests" / "fuzz" / "mutants" / "equivalent.txt").read_text()
    for path, before, _ in mutants.score.Equivalents(listed).faults():
        lines = [line.strip() for line in (ROOT / path).read_text().splitlines()]
        assert set(before.splitlines()) <= set(lines), f"{path}: {before}"


def test_folders_take_turns(mutants, root, monkeypatch):
    other = root / "compiler" / "plan"
    other.mkdir()
    (other / "plan.cpp").write_text(SAMPLE)
    (other / "CMakeLists.txt").write_text("")
    monkeypatch.setattr(sys, "argv", ["mutants", "--seed", "1", "--per-folder", "2", "--folders", "compiler/loop,compiler/plan"])
    asked, state, none = mutants.arguments(), mutants.score.State(None, 1), mutants.score.Equivalents("")
    turns = []
    for mutant in mutants.chosen(root, asked, state, none):
        turns.append(mutant.folder)
        state.add(mutants.score.Verdict.of(mutant, "uncompiled" if len(turns) == 1 else "killed", "", 1.0, ""))
    assert turns == ["compiler/loop", "compiler/loop", "compiler/plan", "compiler/loop", "compiler/plan"]
