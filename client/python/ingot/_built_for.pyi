# SPDX-License-Identifier: Apache-2.0
"""What the extension module was built for; written by the build."""

PYTHON: str
TORCH: str
