# SPDX-License-Identifier: Apache-2.0
"""docs/security.md promises nothing that no test tries."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "security.md").read_text()


def rows():
    return [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| must never")]


def test_each_line_names_a_test_or_says_that_it_is_not_held():
    assert rows()
    for row in rows():
        assert "**not held**" in row or re.search(r"`[\w/]+test[\w/]*\.(py|cpp)", row), row


def test_the_tests_it_names_are_there():
    for name in re.findall(r"`([\w/]+\.(?:py|cpp)(?:::\w+)?)`", PAGE):
        path, _, test = name.partition("::")
        assert (ROOT / path).is_file(), name
        assert not test or f"def {test}(" in (ROOT / path).read_text(), name


def test_each_attack_is_named_by_the_page():
    for path in sorted((ROOT / "tests" / "python" / "security").glob("test_*.py")):
        if path.name != pathlib.Path(__file__).name:
            assert str(path.relative_to(ROOT)) in PAGE, path.name
