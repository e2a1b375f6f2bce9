# SPDX-License-Identifier: Apache-2.0
"""The rooms of the tree: which folder may include what of its own library, and how large rooms, files and functions may be (tools/tidy.py asks).

A *room* is a folder, a *source* a .cpp, .c or .py in it that is no test; its header belongs to it.
"""

import ast
import pathlib
import re

# room -> rooms of the same top folder whose headers its files may include, tests apart. A room without a row may include none.
INSIDE = {
    "cache/async": "",
    "cache/store": "",
    "cache/index": "cache/async cache/store",
    "cache/trust": "cache/async cache/index",
    "cache/net": "cache/async cache/trust",
    "cache/peer": "cache/async cache/index cache/net cache/store cache/trust",
    "cache/redis": "cache/async cache/index cache/net",
    "cache/s3": "cache/async cache/index cache/net cache/trust",
    "client/api": "client/lib/connect client/lib/exported client/lib/threads",
    "client/archive": "client/lib/exported client/lib/run client/native/trace",
    "client/lib/exported": "client/lib/run",
    "client/lib/run": "client/lib/artifact client/lib/threads",
    "client/native/trace": "client/lib/run client/lib/threads client/python/ingot/include/ingot",
    # What native code does is said in terms of what it touches, and to read a place takes knowing what a callable does.
    "client/native/effects": "client/native/cpython client/native/places",
    "client/native/places": "client/native/cpython client/native/effects client/native/trace",
    "client/native/log": "client/native/cpython client/native/effects client/native/places",
    "client/native/symbolic": "client/native/cpython client/native/trace",
    "client/native/observe": "client/native/cpython client/native/effects client/native/log client/native/places client/native/symbolic",
    "client/native/guards": "client/native/cpython client/native/log client/native/places",
    "client/native/site": "client/lib/run client/lib/threads client/native/cpython client/native/effects client/native/log client/native/observe"
                          " client/native/places client/native/guards",
    "client/native/bind": "client/lib/artifact client/lib/connect client/lib/exported client/lib/run client/lib/threads client/native/cpython client/native/effects"
                          " client/native/log client/native/observe client/native/places client/native/site client/native/trace client/native/guards",
    "client/onnx": "client/archive client/lib/exported client/lib/run client/native/trace client/onnx/operators",
    "client/onnx/operators": "client/onnx",
    "compiler": "compiler/fusion compiler/fusion/lower compiler/ir compiler/loop compiler/ops compiler/passes compiler/plan compiler/proof compiler/targets",
    "compiler/ir": "compiler/ops",
    "compiler/ops": "compiler/ir",
    "compiler/import": "compiler/ir compiler/ops",
    "compiler/passes": "compiler/ir compiler/ops",
    "compiler/passes/decompose": "compiler/ir compiler/ops compiler/passes",
    "compiler/fusion": "compiler/fusion/lower compiler/ir compiler/loop compiler/ops",
    "compiler/fusion/lower": "compiler/fusion compiler/loop compiler/ops",
    "compiler/plan": "compiler/fusion compiler/ir compiler/loop compiler/ops compiler/targets",
    "compiler/proof": "compiler/fusion compiler/fusion/lower compiler/import compiler/ir compiler/loop compiler/ops compiler/passes compiler/plan",
    "compiler/targets": "compiler/loop compiler/targets/reference compiler/targets/x86",
    "compiler/targets/reference": "compiler/loop compiler/targets",
    # One library in four rooms: what LLVM makes of any machine's loops still asks x86 for its registers.
    "compiler/targets/llvm": "compiler/loop compiler/targets compiler/targets/llvm/contract compiler/targets/llvm/math compiler/targets/x86",
    "compiler/targets/llvm/contract": "compiler/loop compiler/targets/llvm compiler/targets/llvm/math compiler/targets/x86",
    "compiler/targets/llvm/math": "compiler/loop compiler/targets/llvm",
    "compiler/targets/x86": "compiler/loop compiler/targets compiler/targets/llvm",
    "daemon/state": "",
    # `daemon` is core.h here: what every service is handed.
    "daemon/compile": "daemon daemon/state",
    "daemon/explain": "daemon daemon/state",
    "daemon/tune": "daemon daemon/compile daemon/state",
    "daemon/serve": "daemon/state",
    "daemon/cluster": "daemon daemon/compile daemon/state",
    "daemon/admin": "daemon daemon/cluster daemon/compile daemon/explain daemon/serve daemon/state",
    "daemon/web": "daemon daemon/admin daemon/compile daemon/serve daemon/state",
    "daemon/ipc": "daemon daemon/admin daemon/cluster daemon/compile daemon/explain daemon/state daemon/web",
    "daemon": "daemon/admin daemon/cluster daemon/compile daemon/explain daemon/ipc daemon/serve daemon/state daemon/tune",
    "tools/ingot/verbs": "tools/ingot",
}
SOURCES_MAX = 24
# Lists of like things, each in a file of its own.
LISTS = {"compiler/passes", "tools/ingot/verbs"}
LINES_MAX = 500
# To be left out, not cut: a store for indexes that another daemon or S3 can be as well.
LONG = {"cache/redis/redis_client.cpp"}
FUNCTION_LINES_MAX = 70


def is_test(file: str) -> bool:
    return file.startswith("tests/") or "_test." in file


def includes(text: str) -> "list[tuple[int, str]]":
    return [(n, m[1]) for n, line in enumerate(text.splitlines(), 1) if (m := re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line))]


def check_inside(texts: "dict[str, str]") -> "list[str]":
    """Files include what their room's row says, and a row says no more than they do."""
    found = []
    needed: "dict[str, set[str]]" = {}
    for file, text in texts.items():
        room = file.rpartition("/")[0]
        if is_test(file) or not file.endswith((".h", ".cpp", ".c")):
            continue
        for n, header in includes(text):
            target = header.rpartition("/")[0]
            if target == room or not target or target.split("/")[0] != room.split("/")[0] or "_generated." in header:
                continue
            needed.setdefault(room, set()).add(target)
            if target not in INSIDE.get(room, "").split():
                found.append(f"{file}:{n}: {room} may not include {target} (tools/rooms.py)")
    return found + [f"tools/rooms.py:1: {room} includes nothing of {target}" for room, row in INSIDE.items() for target in row.split()
                    if target not in needed.get(room, set())]


def check_rooms(files: "list[str]") -> "list[str]":
    sources: "dict[str, int]" = {}
    for file in files:
        if file.endswith((".cpp", ".c", ".py")) and not is_test(file) and not file.endswith("__init__.py"):
            room = file.rpartition("/")[0]
            sources[room] = sources.get(room, 0) + 1
    return [f"{room}:1: {count} sources, at most {SOURCES_MAX}" for room, count in sources.items() if count > SOURCES_MAX and room not in LISTS]


def functions(file: str, text: str) -> "list[tuple[int, int, str]]":
    """Where functions begin, their lines and their names. In C++ those of a namespace: what is in a class is short, or is not there."""
    if file.endswith(".py"):
        made = (node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
        return [(node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1, node.name) for node in made]
    found, start, name = [], 0, ""
    for n, line in enumerate(text.splitlines(), 1):
        if not start and re.match(r"[A-Za-z~]", line) and line.endswith("{"):
            if called := re.search(r"([~\w:]+)\(", line):
                start, name = n, called[1]
        elif not start and (called := re.match(r"[A-Za-z~][^;={}]*?([~\w:]+)\([^;{}]*$", line)):
            start, name = n, called[1]   # its parameters go on in the next line
        elif start and line.startswith("}"):
            found.append((start, n - start + 1, name))
            start = 0
        elif start and line.endswith(";") and not line.startswith(" "):
            start = 0
    return found


def check_sizes(file: str, text: str) -> "list[str]":
    if is_test(file) or pathlib.Path(file).suffix not in (".h", ".cpp", ".c", ".py"):
        return []
    lines = text.count("\n")
    found = [f"{file}:1: {lines} lines, at most {LINES_MAX}"] if lines > LINES_MAX and file not in LONG else []
    return found + [f"{file}:{n}: {name} has {length} lines, at most {FUNCTION_LINES_MAX}" for n, length, name in functions(file, text)
                    if length > FUNCTION_LINES_MAX]
