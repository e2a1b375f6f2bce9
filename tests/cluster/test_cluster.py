# SPDX-License-Identifier: Apache-2.0
"""Machines that share a Redis and an S3 store: each key compiled once, right answers whatever the tiers do."""

import concurrent.futures
import json
import os

import pytest
from hosts import Cluster, Host
from waiting import wait_until

# One process: a first call, native code, and what it cost. argv: how many statements the function has.
PROGRAM = """
import json, sys, time
import torch, ingot
steps = int(sys.argv[1])
def f(x, w):
    for i in range(steps):
        x = torch.relu(x @ w) * (i + 1) / 7 + x
    return x
torch.manual_seed(0)
x, w = torch.randn(4, 16), torch.randn(16, 16) / 4
with torch.no_grad():
    right = f(x, w)
    g = ingot.compile(f)
    began = time.perf_counter()
    first = g(x, w)
    first_s = time.perf_counter() - began
    ended = g.wait(200)
    native_s = time.perf_counter() - began
    slowest, until = 0, time.monotonic() + float(sys.argv[2]) if len(sys.argv) > 2 else 0
    while True:
        began = time.perf_counter()
        last = g(x, w)
        slowest = max(slowest, time.perf_counter() - began)
        if time.monotonic() >= until: break
print(json.dumps({"right": torch.allclose(right, first) and torch.allclose(right, last), "first_s": first_s, "native_s": native_s, "ended": ended,
                  "slowest_s": slowest, **ingot.stats()}))
"""


def run(host: Host, steps: int = 2, *args: str):
    result = host.python(PROGRAM, str(steps), *args)
    assert result["right"]
    return result


def test_what_one_machine_compiled_serves_another(cluster: Cluster) -> None:
    a, b = cluster.add(2)
    assert run(a)["compiles"] == 1
    cluster.shared()
    result = run(b, 2)
    assert result["captures"] == 0 and result["native_calls"] >= 1
    assert b.stats()["compiles"] == 0
    assert b.json("list")["entries"][0]["variants"] == 1


def test_s3_alone_is_a_cluster(cluster: Cluster) -> None:
    a, b = cluster.add(2, cluster_index="")
    assert run(a)["compiles"] == 1
    cluster.shared()
    result = run(b, 2)
    assert result["captures"] == 0 and result["native_calls"] >= 1
    assert b.stats()["compiles"] == 0
    # What each adds to one entry stays beside what the other has.
    run(b, 3)
    run(a, 4)
    cluster.shared()
    assert run(a, 3)["captures"] == 0 and run(b, 4)["captures"] == 0
    checks = b.json("config", "check")["checks"]
    assert any("a record can be written" in check["text"] for check in checks), checks


def test_machines_that_miss_at_once_compile_once(cluster: Cluster) -> None:
    machines = cluster.add(3)
    for host in machines:
        host.start()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        assert all(result["native_calls"] for result in pool.map(run, machines))
    assert cluster.total("compiles") == 1


def test_a_machine_that_dies_while_it_compiles_is_taken_over(cluster: Cluster) -> None:
    # With one worker no other one goes on with the compile.
    a, b = cluster.add(2, cluster_lease_ms=1500, workers=1)
    a.start()
    dying = a.begin(PROGRAM, "300")
    wait_until("one machine compiles", lambda: a.json("daemon", "status")["compiles_pending"] == 1)
    a.stop_workers()
    b.start()
    other = b.begin(PROGRAM, "300")
    wait_until("the other waits for it", lambda: b.stats()["cluster_waits"] == 1)
    assert a.stats()["compiles"] == 0
    dying.kill()  # It would start another daemon.
    dying.wait()
    a.kill()
    assert Host.finish(other)["native_calls"] >= 1
    assert b.stats()["compiles"] == 1


# All of them against a real S3 server (tools/test --cluster).
FAULTS = [(tier, fault) for tier in ("redis", "s3") for fault in ("refuse", "silent", "slow", "cut")
          if "INGOT_S3_ENDPOINT" in os.environ or (tier, fault) in (("redis", "silent"), ("s3", "cut"))]


@pytest.mark.parametrize("tier,fault", FAULTS)
def test_a_tier_in_trouble_costs_no_answer_and_comes_back(cluster: Cluster, tier: str, fault: str) -> None:
    a, b = cluster.add(2, cluster_index_ms_max=300, cluster_blob_ms_max=500, cluster_compile_ms_max=5000, cluster_pause_ms_max=1000, cluster_lookup_ms_max=1000)
    assert run(a, 2)["native_calls"] >= 1
    cluster.shared()
    proxy = getattr(b, tier)
    proxy.cut_bytes = 40
    b.start()
    proxy.set(fault)
    for steps in (2, 3, 4):
        assert run(b, steps)["native_calls"] >= 1
    proxy.set("pass")
    # What could not be sent is, and what others made is taken again.
    cluster.shared()
    assert run(a, 4)["captures"] == 0
    run(a, 5)
    cluster.shared()
    assert run(b, 5)["captures"] == 0


def test_redis_that_starts_again_empty_loses_nothing_that_machines_have(cluster: Cluster) -> None:
    a, b = cluster.add(2)
    run(a)
    cluster.shared()
    cluster.servers.stop_redis()
    assert run(b)["native_calls"] >= 1
    assert b.stats()["compiles"] == 1
    cluster.servers.start_redis()
    cluster.shared()
    assert run(a)["captures"] == 0


def test_a_machine_whose_key_is_not_trusted_gives_nothing(cluster: Cluster) -> None:
    a, b = cluster.add(2)
    (b.trust / "trust.toml").unlink()
    b.cli("trust", "add", b.public)
    run(a)
    cluster.shared()
    assert run(b)["native_calls"] >= 1
    assert b.stats()["compiles"] == 1 and b.stats()["cluster_distrusted"] >= 1


def test_nothing_secret_is_logged(cluster: Cluster) -> None:
    (a,) = cluster.add(1, log_level="debug")
    pid = a.start()
    run(a)
    cluster.shared()
    secret = a.env["AWS_SECRET_ACCESS_KEY"]
    private = (a.trust / "signing.key").read_text().split()[1]
    log = (a.store / "ingotd.log")
    text = log.read_text() if log.exists() else "".join(p.read_text(errors="replace") for p in a.store.rglob("*.log"))
    assert text and secret not in text and private not in text
    assert secret not in open(f"/proc/{pid}/cmdline").read()
    assert secret not in json.dumps(a.json("config")) and secret not in a.cli("doctor", check=False)


def test_who_waits_for_another_machine_hears_who_it_is(cluster: Cluster) -> None:
    a, b = cluster.add(2, workers=1)
    a.start()
    b.start()
    first = a.begin(PROGRAM, "300")
    wait_until("one machine compiles", lambda: a.json("daemon", "status")["compiles_pending"] == 1)
    a.stop_workers()
    other = b.begin(PROGRAM, "300")
    wait_until("the other waits for it", lambda: b.json("daemon", "status")["oldest_flights"])
    wait_until("it knows for whom", lambda: b.json("daemon", "status")["oldest_flights"][0]["holder"] == "host0")
    # What the holder is at comes with its first beat after it has begun.
    wait_until("it knows for what", lambda: b.json("daemon", "status")["oldest_flights"][0]["state"] == "compiles")
    flight = b.json("daemon", "status")["oldest_flights"][0]
    assert flight["lease"] == "waits"
    assert flight["left_s"] is None, "nobody has seen anything like it"
    assert "host0" in b.cli("top", "--once") and "host0" in b.cli("daemon", "status")
    a.let_workers_go_on()
    assert Host.finish(first)["native_calls"] >= 1 and Host.finish(other)["native_calls"] >= 1


def test_ranks_of_one_job_on_several_machines_compile_once(cluster: Cluster) -> None:
    machines = cluster.add(2)
    code = PROGRAM.replace("ingot.compile(f)", "ingot.compile(f, config=ingot.Config(global_rank=int(sys.argv[3]), tp_rank=int(sys.argv[3])))")
    for rank, host in enumerate(machines):
        assert host.python(code, "2", "0", str(rank))["native_calls"] >= 1
        cluster.shared()
    assert cluster.total("compiles") == 1
    # Each rank's own entry, found by the same rank of the next job on the other machine.
    assert machines[0].python(code, "2", "0", "1")["captures"] == 0


def test_revoking_a_key_takes_back_what_it_gave(cluster: Cluster) -> None:
    a, b = cluster.add(2, cluster_trust_check_s=1)
    run(a)
    cluster.shared()
    assert run(b)["captures"] == 0
    b.cli("trust", "revoke", "--key", a.name, "--reason", "stolen")
    answer = b.json("trust", "recall")
    assert answer["cluster"]["records_deleted"] >= 1 and answer["cluster"]["blobs"] >= 1
    assert run(b)["captures"] == 1
    assert b.stats()["compiles"] == 1


def test_config_check_tries_each_tier_and_says_what_is_wrong(cluster: Cluster) -> None:
    (a,) = cluster.add(1)
    checks = {check["check"]: check for check in a.json("config", "check")["checks"]}
    assert checks["cluster index"]["ok"] and checks["cluster blobs"]["ok"] and checks["trust"]["ok"] and checks["signing key"]["ok"]
    cluster.servers.stop_redis()
    a.configure(cluster_blobs_bucket="absent")
    text = a.cli("config", "check", check=False)
    assert "PROBLEM" in text and "does it run" in text and "absent" in text


# One process: five functions, the first of which is called first; it waits for a line on its input before the others.
JOB = """
import json, sys
import torch, ingot
def made(steps):
    def f(x, w):
        for i in range(steps):
            x = torch.relu(x @ w) * (i + 1) / 7 + x
        return x
    return f
functions = [made(i + 1) for i in range(5)]
torch.manual_seed(0)
x, w = torch.randn(4, 16), torch.randn(16, 16) / 4
with torch.no_grad():
    for i, f in enumerate(functions):
        if i == 1: print("first", flush=True); sys.stdin.readline()
        g = ingot.compile(f)
        assert torch.allclose(g(x, w), f(x, w))
        g.wait(60)
        assert torch.allclose(g(x, w), f(x, w))
print(json.dumps({"right": True, **ingot.stats()}))
"""


def run_job(host: Host, between=lambda: None):
    job = host.begin(JOB)
    assert job.stdout.readline() == "first\n"
    between()
    out, err = job.communicate("go\n", timeout=300)
    assert job.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def test_the_first_look_up_of_a_job_brings_all_that_it_used(cluster: Cluster) -> None:
    a, b = cluster.add(2)
    assert run_job(a)["compiles"] == 5
    cluster.shared()
    wait_until("what the job used is told", lambda: a.stats()["cluster_manifests"] == 1)
    seen = {}

    def between() -> None:
        wait_until("the other four have come", lambda: b.stats()["cluster_prefetched"] == 4)
        seen.update(b.stats())
        b.redis.set("refuse")
        b.s3.set("refuse")

    result = run_job(b, between)
    assert result["captures"] == 0 and result["entry_hits"] == 5
    after = b.stats()
    assert after["compiles"] == 0 and after["entry_hits"] == 5
    assert after["cluster_lookup_count"] == seen["cluster_lookup_count"] == 5, "no look-up after the first has left the machine"


def test_a_job_brings_nothing_where_that_is_off(cluster: Cluster) -> None:
    a, b = cluster.add(2)
    b.configure(cluster_prefetch_entries_max=0)
    run_job(a)
    cluster.shared()
    wait_until("what the job used is told", lambda: a.stats()["cluster_manifests"] == 1)
    assert run_job(b)["captures"] == 0
    stats = b.stats()
    assert stats["cluster_prefetched"] == 0 and stats["cluster_lookup_count"] == 5
