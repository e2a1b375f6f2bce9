# SPDX-License-Identifier: Apache-2.0
"""One recorded run: its arguments, names, results and effects, and the keys they make."""
