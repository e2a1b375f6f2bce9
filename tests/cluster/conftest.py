# SPDX-License-Identifier: Apache-2.0
import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import hosts

LOG_LINES = 40

@pytest.fixture
def cluster(tmp_path):
    assert shutil.which("redis-server"), "redis-server is not installed (tools/setup)"
    found = hosts.Cluster(tmp_path, is_patient=True, log_level="debug")
    yield found
    found.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Beside a failure stands what each machine said of the others: it may be one of a busy moment, which does not come again."""
    report = (yield).get_result()
    found = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(found, hosts.Cluster):
        for host in found.hosts:
            report.sections.append((f"{host.name}: what its daemon logged of the cluster", host.log_of_cluster(LOG_LINES)))
