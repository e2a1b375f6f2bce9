# SPDX-License-Identifier: Apache-2.0
"""Fuzzers (tests/fuzz) in this process."""

import contextlib
import importlib.util
import pathlib
import sys

import torch

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "fuzz"


def _lies_in_tests(module) -> bool:
    return pathlib.Path(getattr(module, "__file__", None) or "/").is_relative_to(FOLDER.parent)


def _registers(module) -> bool:
    """Operators, which a process has once: such a module is never loaded again."""
    return any(isinstance(value, torch.library.Library) for value in vars(module).values())


def _loaded(names):
    """Modules that a fuzzer's neighbours would be taken for: what lies in folders of tests, and whatever has a name of theirs."""
    return {name for name, module in sys.modules.items() if (name in names or _lies_in_tests(module)) and not _registers(module)
            and module.__name__ != "__main__" and not name.startswith(("test_", "conftest"))}


@contextlib.contextmanager
def running(folder, name="__main__"):
    """A fuzzer's file with its own neighbours, those that it imports while it runs as well: of other fuzzers they have the same names."""
    folders = [FOLDER / folder, FOLDER]
    names = {file.stem for place in folders for file in place.glob("*.py")} - {"__main__"}
    others, path = {name: sys.modules.pop(name) for name in _loaded(names)}, list(sys.path)
    sys.path[:0] = map(str, folders)
    spec = importlib.util.spec_from_file_location(f"{folder}_{name.strip('_')}", FOLDER / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path[:] = path
        for fresh in _loaded(names):
            del sys.modules[fresh]
        sys.modules.update(others)


def load(folder, name="__main__"):
    """One that imports nothing later."""
    with running(folder, name) as module:
        return module
