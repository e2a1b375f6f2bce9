# SPDX-License-Identifier: Apache-2.0
"""The ``ingot`` command of an installed wheel: runs the program that lies inside the package."""

import os
import sys


def main() -> None:
    """Replaces this process by the ``ingot`` program; does not return."""
    program = os.path.join(os.path.dirname(__file__), "bin", "ingot")
    os.execv(program, [program, *sys.argv[1:]])
