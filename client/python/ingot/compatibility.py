# SPDX-License-Identifier: Apache-2.0
"""Whether the extension module fits the PyTorch that is imported: its C++ interface differs between minor versions."""


def check_torch(built: str, found: str) -> None:
    """ImportError when ``found`` (torch.__version__) is of another minor version than ``built``."""
    if built.split(".")[:2] != found.split(".")[:2]:
        raise ImportError(f"this ingot was built for PyTorch {built}, found {found}; build it again beside the PyTorch you use: "
                          "pip install --no-build-isolation --force-reinstall --no-deps <ingot's source>")
