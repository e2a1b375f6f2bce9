# SPDX-License-Identifier: Apache-2.0
"""Machines whose network loses, delays and parts (tests/support/wire.py): right answers, and all is well again by
itself. What calls cost meanwhile: tests/bench/cluster.py."""

import os
import signal

import pytest
import wire
from functions import PROGRAM
from hosts import Caller, Cluster, Host
from waiting import wait_until


# What a user has: a tier that does not answer is given up.
SOON = {"cluster_lookup_ms_max": 10_000, "cluster_index_ms_max": 1000, "cluster_blob_ms_max": 30_000}


@pytest.fixture
def machines(cluster: Cluster):
    """Three, with a caller each; they have limits by which trouble is seen soon."""
    hosts = cluster.add(3, **SOON, cluster_lease_ms=1500, cluster_pause_ms_max=500, cluster_miss_ms=0, cluster_compile_ms_max=10_000, workers=1)
    for host in hosts:
        host.start()
    callers = [Caller(host, PROGRAM) for host in hosts]
    yield list(zip(hosts, callers))
    for host in hosts:
        host.join()
    for caller in callers:
        caller.close()


def serves(caller: Caller, number: int) -> "dict[str, int]":
    result = caller.run(number)
    assert result["right"] and result["native_calls"]
    return result


def all_is_sent(*hosts: Host) -> None:
    for host in hosts:
        wait_until(f"{host.name} has sent what it made", host.has_sent, 60)


def test_machines_have_networks_of_their_own_where_they_can(cluster: Cluster) -> None:
    (host,) = cluster.add(1, **SOON)
    assert isinstance(host.net, wire.Wire) == wire.can_be_made()
    host.part()
    checks = {check["check"]: check for check in host.checks()}
    assert not checks["cluster index"]["ok"] and not checks["cluster blobs"]["ok"]
    host.join()
    checks = {check["check"]: check for check in host.checks()}
    assert checks["cluster index"]["ok"] and checks["cluster blobs"]["ok"]


def test_a_holder_that_is_parted_is_taken_over_and_publishes_late(cluster: Cluster, machines) -> None:
    (a, caller_a), (b, caller_b), (c, caller_c) = machines
    serves(caller_a, 1)
    all_is_sent(a)
    # Its compile is under way when it is parted, ends meanwhile, and is given away when the network is back.
    a.stop_workers()
    caller_a.ask(2)
    wait_until("it holds the lease", cluster.servers.leases)
    waits = b.stats()["cluster_waits"]
    caller_b.ask(2)
    wait_until("the other waits for it", lambda: b.stats()["cluster_waits"] > waits)
    a.part()
    result = caller_b.answer()
    assert result["right"] and result["native_calls"]
    assert b.stats()["compiles"] == 1
    all_is_sent(b)
    for one in a.workers():
        os.kill(one, signal.SIGCONT)
    result = caller_a.answer()
    assert result["right"] and result["native_calls"]
    # What it makes alone it gives away later.
    serves(caller_a, 3)
    a.join()
    all_is_sent(a)
    assert serves(caller_c, 2)["captures"] == 0 and serves(caller_c, 3)["captures"] == 0
    assert c.stats()["compiles"] == 0 and cluster.total("compiles") == 4
    wait_until("no lease is left", lambda: not cluster.servers.leases(), 10)


@pytest.mark.parametrize("loss_out,loss_in,delay_s", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.05, 0.05, 0.1)],
                         ids=["nothing it says arrives", "it hears nothing", "200 ms and 5 % of loss"])
def test_a_network_in_trouble_costs_no_answer(machines, loss_out: float, loss_in: float, delay_s: float) -> None:
    (a, caller_a), (b, caller_b), (_, caller_c) = machines
    for number in (1, 2):
        serves(caller_a, number)
    all_is_sent(a)
    b.net.loss_out, b.net.loss_in, b.net.delay_s = loss_out, loss_in, delay_s
    for number in (1, 2, 3, 4):
        serves(caller_b, number)
    b.join()
    # What it made is given away, and what others made is taken again.
    all_is_sent(b)
    for number in (3, 4):
        assert serves(caller_c, number)["captures"] == 0
    serves(caller_a, 5)
    all_is_sent(a)
    wait_until("it asks others again", lambda: b.json("daemon", "status")["cluster"]["tiers"][0]["breaker"] == "closed", 20)
    serves(caller_b, 5)
