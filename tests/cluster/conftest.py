# SPDX-License-Identifier: Apache-2.0
import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import hosts


@pytest.fixture
def cluster(tmp_path):
    assert shutil.which("redis-server"), "redis-server is not installed (tools/setup)"
    found = hosts.Cluster(tmp_path, is_patient=True)
    yield found
    found.close()
