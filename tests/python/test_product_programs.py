# SPDX-License-Identifier: Apache-2.0
"""Generated programs of products (tests/fuzz/products), a fixed number of them."""

import importlib.util
import pathlib

FUZZER = pathlib.Path(__file__).parent.parent / "fuzz" / "products" / "__main__.py"


def test_generated_programs(ingot):
    spec = importlib.util.spec_from_file_location("products_fuzzer", FUZZER)
    fuzzer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzzer)
    wrong, native = fuzzer.run(0, 150)
    assert not wrong, "\n".join(wrong)
    assert native > 60   # The others have sizes of 1, or products of vectors.
