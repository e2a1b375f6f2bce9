# SPDX-License-Identifier: Apache-2.0
"""Ingot for a whole program: every ``torch.compile`` of it that names no backend, those of its libraries too.

No part of the package ``ingot``: PyTorch calls `on_import_of_torch` at the end of every import of it (the entry points "torch.backends"), and
whoever does not ask for Ingot is to pay nothing for that. The package itself is imported with the first call that is compiled.
"""

import os
import sys

_OFF = ("", "0", "false", "no", "off")  # As ingot/config.py has them.


def everywhere() -> None:
    """Makes Ingot the backend of every ``torch.compile`` and ``nn.Module.compile`` from now on that names none.

    The same as INGOT_EVERYWHERE=1 for a program that nobody edits. ``torch.compiler.set_default_backend(None)`` ends it.
    Raises ``NotImplementedError`` where PyTorch is older than 2.13, which has no default to set.
    """
    import torch

    if not hasattr(torch.compiler, "set_default_backend"):
        raise NotImplementedError("a default backend of torch.compile can be set from PyTorch 2.13 on; this is PyTorch "
                                  f"{torch.__version__}: name it in each call, torch.compile(model, backend='ingot')")
    torch.compiler.set_default_backend("ingot")


def on_import_of_torch() -> None:
    """What INGOT_EVERYWHERE says. Whatever fails, the program gets its PyTorch."""
    if os.environ.get("INGOT_EVERYWHERE", "").strip().lower() in _OFF:
        return
    try:
        everywhere()
    except Exception as error:  # foreign: what importing torch._dynamo raises
        print(f"ingot: INGOT_EVERYWHERE is set and has no effect: {error}", file=sys.stderr)
