# SPDX-License-Identifier: Apache-2.0
"""Fuzzers (tests/fuzz) in this process."""

import contextlib
import importlib.util
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "fuzz"


def _loaded():
    """Modules that lie in folders of tests."""
    return {name for name, module in sys.modules.items() if pathlib.Path(getattr(module, "__file__", None) or "/").is_relative_to(FOLDER.parent)
            and module.__name__ != "__main__" and not name.startswith(("test_", "conftest"))}


@contextlib.contextmanager
def running(folder, name="__main__"):
    """A fuzzer's file with its own neighbours, those that it imports while it runs as well: of other fuzzers they have the same names."""
    others, path = {name: sys.modules.pop(name) for name in _loaded()}, list(sys.path)
    sys.path[:0] = [str(FOLDER / folder), str(FOLDER)]
    spec = importlib.util.spec_from_file_location(f"{folder}_{name.strip('_')}", FOLDER / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path[:] = path
        for fresh in _loaded():
            del sys.modules[fresh]
        sys.modules.update(others)


def load(folder, name="__main__"):
    """One that imports nothing later."""
    with running(folder, name) as module:
        return module
