# SPDX-License-Identifier: Apache-2.0
"""Whether this Python and this PyTorch are ones that Ingot works with, and the ones that its extension module was built for.

The one place that knows versions. Run as a program: whether this Python is. Needs nothing but Python itself, and reads as any version of it.
"""

import sys
import sysconfig

PYTHONS = ("3.11", "3.12", "3.13")
TORCHES = ("2.11", "2.12", "2.13", "2.14", "2.15")
AGAIN = "pip install --no-build-isolation --force-reinstall --no-deps <ingot's source>"


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def this_python() -> str:
    """"3.12", or another implementation's or a free-threaded build's name in front of it."""
    name = sys.implementation.name
    version = "{}.{}".format(*sys.version_info[:2])
    if name != "cpython":
        return name + " " + version
    return "free-threaded " + version if sysconfig.get_config_var("Py_GIL_DISABLED") else version


def check_python(found: str, built: "str | None" = None) -> None:
    """ImportError when Ingot does not work with ``found`` (see `this_python`), or was built for another."""
    if found not in PYTHONS:
        raise ImportError("ingot works with CPython {}; this is Python {}: use one of these, or a newer ingot".format(_words(PYTHONS), found))
    if built is not None and built != found:
        raise ImportError("this ingot was built for Python {}, found {}; build it again with the Python you use: {}".format(built, found, AGAIN))


def check_torch(found: str, built: str) -> None:
    """ImportError when ``found`` (torch.__version__) is not supported, or of another minor version than ``built``: C++ interfaces differ."""
    if _minor(found) not in TORCHES:
        raise ImportError("ingot works with PyTorch {}; found {}: install one of these, or a newer ingot".format(_words(TORCHES), found))
    if _minor(built) != _minor(found):
        raise ImportError("this ingot was built for PyTorch {}, found {}; build it again beside the PyTorch you use: {}".format(built, found, AGAIN))


_misfit = None  # type: str | None


def misfit() -> "str | None":
    """Why the extension module cannot serve this process, and what to do; None where it can. What was found first stays the answer.

    Loads PyTorch, which the module links against; an ImportError of PyTorch's own is the caller's.
    """
    global _misfit
    if _misfit is None:
        _misfit = _find_misfit() or ""
    return _misfit or None


def _find_misfit() -> "str | None":
    import torch

    try:
        from ingot import _built_for

        check_python(this_python(), _built_for.PYTHON)
        check_torch(torch.__version__, _built_for.TORCH)
    except ModuleNotFoundError:
        return "this ingot has not been built: " + AGAIN
    except ImportError as error:
        return str(error)
    try:
        from ingot._native import version  # noqa: F401
    except ImportError as error:  # Missing, damaged, or of a build that differs from the rest.
        return "its native module cannot be used ({}); build it again: {}".format(error, AGAIN)
    return None


def _words(versions: "tuple[str, ...]") -> str:
    return ", ".join(versions[:-1]) + " and " + versions[-1]


if __name__ == "__main__":
    try:
        check_python(this_python())
    except ImportError as error:
        sys.exit(str(error))
