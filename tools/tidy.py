#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layout rules that a machine judges well: dependency directions, rooms, library fences, dead files, long lines, format of C++; and what ruff and mypy find in Python.

usage: .venv/bin/python tools/tidy.py        prints each breach as file:line: rule, exits 1 when there is one
"""

import pathlib
import re
import subprocess
import sys

import rooms

ROOT = pathlib.Path(__file__).resolve().parent.parent

# folder -> folders whose headers it may include (design: ARCHITECTURE.md, "Folders").
ALLOWED = {
    "base": set(),
    "proto": {"base"},
    "guards": {"base", "proto"},
    "kernels": {"base"},
    "cache": {"base", "proto"},
    "compiler": {"base", "proto", "guards", "kernels"},
    "client": {"base", "proto", "guards", "kernels"},
    "daemon": {"base", "proto", "guards", "kernels", "cache", "compiler"},
    "tools": {"base", "proto", "guards", "kernels", "cache", "compiler", "daemon", "client"},
    "tests": {"base", "proto", "guards", "kernels", "cache", "compiler", "daemon", "client", "tools"},
}
# Tests of the compiler and daemon may use fakes and builders.
TEST_EXTRA = {"tests", "client", "compiler", "daemon", "cache"}

# library -> (pattern of its headers, folders that may include it)
FENCES = {
    "RocksDB": (r"rocksdb/", ("cache/",)),
    "libsodium": (r"sodium(\.h|/)", ("cache/",)),
    "libcurl": (r"curl/", ("cache/net/curl",)),
    "zstd": (r"zstd\.h", ("cache/",)),
    "LLVM": (r"(llvm|llvm-c|lld)/", ("compiler/targets/llvm/", "compiler/targets/x86/")),
    "CUDA": (r"(cuda\.h|cuda_runtime|nvrtc|nvJitLink)", ("kernels/cuda/", "compiler/targets/nvptx/")),
    "libtorch": (r"(ATen|c10|caffe2|torch)/", ("client/", "examples/cpp/")),
    "Asio": (r"boost/asio", ("cache/", "daemon/", "client/")),
    "Beast": (r"boost/beast", ("daemon/web/",)),
    "hiredis": (r"hiredis/", ("cache/redis/redis_protocol",)),
    "OpenSSL": (r"(openssl/|boost/asio/ssl)", ("cache/net/certificate", "cache/s3/payload_hash", "cache/redis/redis_scripts", "cache/trust/sha256", "cache/net/transport")),
    "jemalloc": (r"jemalloc/", ("daemon/heap",)),
    "CLI11": (r"CLI/", ("tools/", "daemon/")),
    "toml++": (r"toml\+\+/", ("daemon/state/config", "cache/trust/trust_text")),
    "nlohmann/json": (r"nlohmann/", ("tools/", "daemon/", "client/lib/exported/call_signature", "client/lib/exported/exported_file", "client/lib/exported/given_arguments",
                                      "client/lib/exported/weight_file", "client/api/", "client/archive/", "client/onnx/onnx_model")),
    "protobuf": (r"(google/protobuf|client/onnx/onnx\.pb\.h)", ("client/onnx/wire_model.cpp",)),
    "zlib": (r"zlib\.h", ("client/archive/zip_sums.cpp",)),
    "spdlog": (r"spdlog/", ("base/log",)),
    "Python": (r"(Python\.h|pybind11/)", ("client/native/",)),
}
LINE_MAX = {".h": 120, ".cpp": 120, ".c": 120, ".py": 180, ".fbs": 200}
# Lists of operators read best as tables.
LONG_LINES_IN = {"compiler/ops/ops.def"}


def tracked() -> "list[str]":
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [f for f in out.stdout.splitlines() if (ROOT / f).is_file()]


def check_directions(file: str, text: str) -> "list[str]":
    folder = file.split("/")[0]
    if folder not in ALLOWED:
        return []
    allowed = ALLOWED[folder] | {folder} | (TEST_EXTRA if re.search(r"_(test|contract)\.|/test_", file) else set())
    return [f"{file}:{n}: {folder} may not include {target}" for n, target in rooms.includes(text)
            if (top := target.split("/")[0]) in ALLOWED and "/" in target and top not in allowed]


def check_fences(file: str, text: str) -> "list[str]":
    found = []
    for n, target in rooms.includes(text):
        for library, (pattern, places) in FENCES.items():
            if re.match(pattern, target) and not file.startswith(places) and not file.startswith("tests/"):
                found.append(f"{file}:{n}: {library} is fenced in {', '.join(places)}")
    return found


def check_lines(file: str, text: str) -> "list[str]":
    limit = LINE_MAX.get(pathlib.Path(file).suffix)
    if limit is None or file in LONG_LINES_IN:
        return []
    return [f"{file}:{n}: {len(line)} columns, at most {limit}" for n, line in enumerate(text.splitlines(), 1)
            if len(line) > limit and not line.lstrip().startswith("%")]  # IR text inside a test


def check_marks(file: str, text: str) -> "list[str]":
    if file == "tools/tidy.py":
        return []
    return [f"{file}:{n}: a mark of unfinished work without an issue" for n, line in enumerate(text.splitlines(), 1)
            if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line)]


def check_errors(file: str, text: str) -> "list[str]":
    """What a signal's handler has raised is not ours to clear; a frame without builtins can import nothing."""
    if not file.startswith("client/native/"):
        return []
    lines = list(enumerate(text.splitlines(), 1))
    found = [f"{file}:{n}: LoadedModule() finds what is loaded" for n, line in lines if re.search(r"\bPyImport_ImportModule\(|\bmodule_::import\(", line)]
    if file != "client/native/cpython/drop_error.cpp":
        found += [f"{file}:{n}: DropError() ends errors" for n, line in lines if re.search(r"\bPyErr_Clear\(|\bdiscard_as_unraisable\(", line)]
    return found


def check_digests(file: str, text: str) -> "list[str]":
    """UTF-8, words and parts of names are the same for some texts and classes that are not: what is digested is exact."""
    if not file.startswith("client/native/"):
        return []
    return [f"{file}:{n}: AddText() and AddClassName() digest texts and classes" for n, line in enumerate(text.splitlines(), 1)
            if re.search(r"\b(AddField|WriteBytes|DigestOf|AppendText)\(.*\b(ViewOf|ReprOf|ModuleOf|QualnameOf|PyUnicode_AsUTF8\w*)\(", line)]


# What GCC 12 destroys twice: closures and braced aggregates that are temporaries of a co_await, and what is passed where one
# stands in a condition (cache/async/task.h).
AWAIT_IN_CONDITION = re.compile(r"\b(if|while|for|switch) \((?:[^()\n]|\([^()\n]*\))*= *co_await|\b(if|while|switch) \(\W*co_await|[?:] *\*?co_await")
AWAIT_OF_TEMPORARY = re.compile(r"co_await[^;]*?(?:[(,]\s*\[[^\]\n]*\]\s*[({]|[(,]\s*[A-Za-z_:]+\{|[(,]\s*\{\}[,)])")


def check_waits(file: str, text: str) -> "list[str]":
    if not file.endswith((".cpp", ".h")):
        return []
    return [f"{file}:{text.count(chr(10), 0, found.start()) + 1}: {what}"
            for rule, what in ((AWAIT_IN_CONDITION, "a co_await in a condition"), (AWAIT_OF_TEMPORARY, "a temporary in a co_await"))
            for found in rule.finditer(text)]


# Calls that make a descriptor and can mark it; those that cannot have a form that can.
MAKES_DESCRIPTOR = r"open|openat|socket|socketpair|accept4|pipe2|dup3|memfd_create|eventfd|epoll_create1|timerfd_create|signalfd|inotify_init1"
CANNOT_MARK = r"accept|pipe|dup|creat|epoll_create|inotify_init|popen|mkstemp"


def check_descriptors(file: str, text: str) -> "list[str]":
    """A program that is started gets the descriptors that it is given: all others are marked when they are made."""
    if not file.endswith((".cpp", ".h")) or file.startswith(("tests/", "examples/")) or "_test." in file or "/test_" in file:
        return []
    found = []
    for n, line in enumerate(text.splitlines(), 1):
        code = re.sub(r"//.*", "", line)
        if call := re.search(rf"(?<![\w.>:])(?:::)?({CANNOT_MARK})\(", code):
            found.append(f"{file}:{n}: {call[1]}() makes a descriptor that stays open in programs that are started")
        # Members and functions of other names without arguments are none of the kernel's.
        if (call := re.search(rf"(?<![\w.>:])(?:::)?({MAKES_DESCRIPTOR})\((?!\))", code)) and "CLOEXEC" not in code:
            found.append(f"{file}:{n}: {call[1]}() without CLOEXEC")
        if re.search(r"\bfopen\(", code) and not re.search(r'"\w*e\w*"', code):
            found.append(f"{file}:{n}: fopen() without 'e'")
    return found


def check_tables(file: str, text: str) -> "list[str]":
    """One door for bytes from outside: what is read elsewhere is not bounded in what it unpacks to."""
    if file.startswith(("proto/message.", "tests/")) or "_test" in file or not file.endswith((".h", ".cpp")):
        return []
    return [f"{file}:{n}: proto::ReadMessage reads tables" for n, line in enumerate(text.splitlines(), 1)
            if re.search(r"\bflatbuffers::(Verifier [^:]|GetRoot<)|\bVerify\w+Buffer\(", line)]


# Where tests wait for what gives no word of itself; tests/bench measures, and tests nothing.
WAITING = ("tests/support/eventually.h", "tests/support/waiting.py", "tests/bench/")
SLEEPS = re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep|this_thread::yield|time\.sleep)\(|(?<![\w.])sleep\(")


def check_sleeps(file: str, text: str) -> "list[str]":
    """Who sleeps until something must have happened fails on a busy machine, and wastes time on others. Where time itself is what a test needs, the line says why."""
    if not file.startswith("tests/") and not re.search(r"_(test|contract)\.|/test_", file) or file.startswith(WAITING):
        return []
    return [f"{file}:{n}: Eventually() and wait_until() wait; a sleep says what it is for: \"On purpose: ...\"" for n, line in enumerate(text.splitlines(), 1)
            if SLEEPS.search(line) and not re.search(r"(//|#) On purpose: \w", line)]


def check_license(file: str, text: str) -> "list[str]":
    if pathlib.Path(file).suffix in (".h", ".cpp", ".py") and "SPDX-License-Identifier" not in text[:200]:
        return [f"{file}:1: no SPDX line"]
    return []


def check_dead(files: "list[str]", texts: "dict[str, str]") -> "list[str]":
    """Sources that no CMakeLists.txt names, headers that nothing includes."""
    cmake = "\n".join(texts[f] for f in files if f.endswith(("CMakeLists.txt", ".cmake")))
    built = {re.sub(r"^(\$\{\w+\}/|(\.\./)+)", "", word) for word in re.split(r"[\s()]+", cmake)}
    included = {target for f in files if f.endswith((".h", ".cpp")) for _, target in rooms.includes(texts[f])}
    found = []
    for file in files:
        path = pathlib.Path(file)
        if path.suffix == ".cpp":
            tails = {"/".join(path.parts[i:]) for i in range(len(path.parts))}
            if not tails & built:
                found.append(f"{file}:1: no CMakeLists.txt builds this file")
        elif path.suffix == ".h" and file not in included and f'"{path.name}"' not in str(included):
            found.append(f"{file}:1: nothing includes this header")
    return found


# What refuses expressions, kernels, schedules and code: a guard whose reason no test has heard could be left out, and nobody would notice.
VERIFIERS = ("client/lib/artifact/elf_check.cpp", "client/lib/artifact/manifest_check.cpp", "compiler/fusion/verify.cpp", "compiler/loop/schedule.cpp", "compiler/loop/verify.cpp")


def literals(text: str) -> "list[tuple[int, str]]":
    """Texts of C++ that have words, each with its line; those that follow each other are one."""
    text = re.sub(r"(?m)^ *(//|#include).*|\bdefault:.*", "", text)
    return [(text.count("\n", 0, found.start()) + 1, "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', found[0])))
            for found in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', text)]


def check_refusals(texts: "dict[str, str]") -> "list[str]":
    """Each reason of a verifier's is heard by a test of its folder: some text of the test's is a part of it and of no other."""
    found = []
    for file in VERIFIERS:
        folder = file.rpartition("/")[0] + "/"
        heard = {said for other, text in texts.items() if other.startswith(folder) and other.endswith("_test.cpp") for _, said in literals(text) if len(said) >= 8}
        reasons = {said: n for n, said in reversed(literals(texts[file])) if re.fullmatch(r"\w[^{]+ [^{]+", said) and len(said) > 8}
        heard = {re.sub(r"^: |\W*\d*$", "", said) for said in heard}   # as in "value 5 does not exist"
        told = {said: [reason for reason in reasons if said in reason] for said in heard}
        known = {told[said][0] for said in heard if len(told[said]) == 1} | heard
        found += [f"{file}:{n}: no test hears \"{reason}\"" for reason, n in reasons.items() if reason not in known]
    return found


def named_types(text: str) -> "list[tuple[int, str]]":
    """Types at the top of a namespace that other files can see, each with its namespace."""
    spaces: "list[str]" = []
    found = []
    for n, line in enumerate(text.splitlines(), 1):
        if opened := re.match(r"(?:inline )?namespace(?: ([\w:]+))? \{", line):
            spaces.append(opened[1] or "")
        elif re.match(r"\}\s+// namespace", line):
            spaces = spaces[:-1]
        elif (type_ := re.match(r"(?:struct|class|enum class|enum) (\w+)(?: final)?(?:\s*:(?!:)[^;{]*)?\s*\{", line)) and "" not in spaces:
            found.append((n, "::".join([*spaces, type_[1]])))
    return found


def check_types(texts: "dict[str, str]") -> "list[str]":
    """Two types of one name in one namespace: a program that links both has one of them for both."""
    places: "dict[str, list[str]]" = {}
    for file, text in texts.items():
        if file.endswith((".h", ".cpp")) and not file.startswith(("examples/", "tests/")):
            for n, name in named_types(text):
                places.setdefault(name, []).append(f"{file}:{n}")
    return [f"{others[0]}: {name} is another type in {', '.join(others[1:])}" for name, others in places.items() if len(others) > 1]


def check_python() -> "list[str]":
    """Mistakes in Python; which rules hold: pyproject.toml."""
    found = []
    for tool in (["ruff", "check", "--quiet", "--no-cache", "--output-format=concise"],
                 ["mypy", "--no-error-summary", "client/python/ingot", "tools/tidy.py", "tools/rooms.py"]):
        done = subprocess.run([sys.executable, "-m", *tool], cwd=ROOT, capture_output=True, text=True)
        found += (done.stdout + done.stderr).splitlines()
    return found


def check_format(files: "list[str]") -> "list[str]":
    """C++ is as clang-format writes it (.clang-format); `.venv/bin/clang-format -i FILE` does."""
    sources = [file for file in files if file.endswith((".h", ".cpp", ".c"))]
    program = pathlib.Path(sys.executable).with_name("clang-format")
    done = subprocess.run([program, "--dry-run", "-Werror", "--ferror-limit=1", *sources], cwd=ROOT, capture_output=True, text=True)
    return [line for line in done.stderr.splitlines() if ": error: " in line]


def main() -> int:
    files = tracked()
    texts = {f: (ROOT / f).read_text(errors="replace") for f in files if pathlib.Path(f).suffix in (*LINE_MAX, ".txt", ".cmake", ".def")}
    found = check_dead(files, texts) + rooms.check_rooms(files) + rooms.check_inside(texts) + check_types(texts) + check_refusals(texts) + check_python() + check_format(files)
    for file, text in texts.items():
        for check in (check_directions, rooms.check_sizes, check_fences, check_lines, check_marks, check_errors, check_digests, check_waits,
                      check_descriptors, check_tables, check_sleeps, check_license):
            found += check(file, text)
    print("\n".join(sorted(found)) or f"tidy: {len(texts)} files, nothing to say")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
