# SPDX-License-Identifier: Apache-2.0
"""Generated programs of products (tests/fuzz/products), a fixed number of them."""

import fuzzers


def test_generated_programs(ingot):
    wrong, native = fuzzers.load("products").run(0, 150)
    assert not wrong, "\n".join(wrong)
    assert native > 60   # The others have sizes of 1, or products of vectors.
