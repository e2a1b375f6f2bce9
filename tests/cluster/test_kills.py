# SPDX-License-Identifier: Apache-2.0
"""A daemon is killed, or stands still for longer than its lease, before any step of its work (tests/support/steps.py):
what others see is whole, nobody waits longer than a lease, and what it had acknowledged arrives later."""

import os
import signal

import pytest
from functions import PROGRAM
from hosts import Caller, Cluster, Host
from waiting import wait_until

LEASE_MS = 1500
# All of them where a real S3 server is meant (tools/test --cluster), or where they are asked for; else some, spread over the whole.
ALL = "INGOT_S3_ENDPOINT" in os.environ or "INGOT_TEST_ALL_STEPS" in os.environ
SOME = 4


class Trio:
    """A machine that is killed, one that needs the same, and one that comes later and should find all of it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.hosts = cluster.add(3, cluster_lease_ms=LEASE_MS, cluster_pause_ms_max=500, cluster_miss_ms=0, workers=1)
        for host in self.hosts:
            host.count_steps()
            host.start()
        self.callers = [Caller(host, PROGRAM) for host in self.hosts]
        self.number = 0
        for caller in self.callers:
            self.new()
            assert caller.run(self.number)["right"]
        cluster.shared()

    def new(self) -> int:
        """The number of a function that nobody has called."""
        self.number += 1
        return self.number

    def compiles(self, *hosts: Host) -> int:
        return sum(host.stats()["compiles"] for host in hosts)

    def steps_of_a_publish(self) -> int:
        a, caller = self.hosts[0], self.callers[0]
        a.steps.arm()
        assert caller.run(self.new())["right"]
        wait_until("all is sent", a.has_sent)
        return a.steps.disarm()

    def check_leases_end(self) -> None:
        """Nobody waits longer for whoever died than a lease lasts, and the time of a look at it."""
        wait_until("no lease is left", lambda: not self.cluster.servers.leases(), LEASE_MS / 1000 + 5)

    def close(self) -> None:
        for caller in self.callers:
            caller.close()


@pytest.fixture
def trio(cluster: Cluster):
    found = Trio(cluster)
    yield found
    found.close()


def chosen(total: int) -> "list[int]":
    """The steps at which to stop, of about so many."""
    if ALL:
        # A run with a few more than the one that was counted ends when a step is not reached.
        return list(range(1, 2 * total))
    return [1 + total * i // SOME for i in range(SOME)]


@pytest.mark.parametrize("other_is_first", [True, False])
def test_a_machine_killed_at_any_step_of_a_publish_harms_nobody(trio: Trio, other_is_first: bool) -> None:
    (a, b, c), (caller_a, caller_b, caller_c) = trio.hosts, trio.callers
    killed = 0
    for step in chosen(trio.steps_of_a_publish()):
        number, others = trio.new(), trio.compiles(b, c)
        a.steps.arm(step)
        caller_a.ask(number)
        wait_until("it is killed, or done", lambda: a.steps.fired or (caller_a.has_answered() and a.has_sent()), 60)
        if not a.steps.fired:
            a.steps.disarm()
            assert caller_a.answer()["right"]
            break
        print(f"f{number}: killed before step {step}: {a.steps.where}")
        killed += 1
        if other_is_first:
            result = caller_b.run(number)
            assert result["right"] and result["native_calls"]
        result = caller_a.answer()
        assert result["right"]
        # Its program has it, by the daemon of before or the next. What that has not said is its own business.
        is_acknowledged = result["native_calls"] != 0
        a.start()
        wait_until("what it acknowledged is sent", a.has_sent)
        result = caller_c.run(number)
        assert result["right"] and result["native_calls"]
        assert result["captures"] == 0 or not (is_acknowledged or other_is_first)
        assert trio.compiles(a, b, c) - others <= 1, "one more than what was lost"
        trio.check_leases_end()
    assert killed
    for host in trio.hosts:
        host.cli("verify")


def test_a_machine_that_stands_still_at_any_step_and_publishes_late_harms_nobody(trio: Trio) -> None:
    (a, b, c), (caller_a, caller_b, caller_c) = trio.hosts, trio.callers
    stopped = 0
    for step in chosen(trio.steps_of_a_publish()):
        number, before = trio.new(), trio.compiles(a, b, c)
        pid = a.json("daemon", "status")["pid"]
        a.steps.arm(step, signal.SIGSTOP)
        caller_a.ask(number)
        wait_until("it stands still, or is done", lambda: a.steps.fired or (caller_a.has_answered() and a.has_sent()), 60)
        if not a.steps.fired:
            a.steps.disarm()
            assert caller_a.answer()["right"]
            break
        print(f"f{number}: stands still before step {step}: {a.steps.where}")
        stopped += 1
        result = caller_b.run(number)
        assert result["right"] and result["native_calls"]
        os.kill(pid, signal.SIGCONT)
        assert caller_a.answer()["right"]
        wait_until("all is sent", a.has_sent)
        wait_until("all is sent", b.has_sent)
        result = caller_c.run(number)
        assert result["right"] and result["native_calls"] and result["captures"] == 0
        assert trio.compiles(a, b, c) - before <= 2
        trio.check_leases_end()
    assert stopped
    for host in trio.hosts:
        host.cli("verify")


def test_a_machine_killed_at_any_step_of_a_takeover_is_taken_over_itself(trio: Trio) -> None:
    (a, b, c), (caller_a, caller_b, caller_c) = trio.hosts, trio.callers
    killed = 0
    for step in chosen(trio.steps_of_a_publish()):
        assert caller_a.run(trio.new())["right"]
        wait_until("all is sent", a.has_sent)
        number = trio.new()
        # The first holder dies in the middle of its compile, and its program with it until the end.
        a.stop_workers()
        caller_a.ask(number)
        wait_until("it holds the lease", trio.cluster.servers.leases)
        caller_a.send_signal(signal.SIGSTOP)
        waits = b.stats()["cluster_waits"]
        caller_b.ask(number)
        wait_until("the other waits for it", lambda waits=waits: b.stats()["cluster_waits"] > waits)
        before = trio.compiles(c)
        b.steps.arm(step)
        a.kill()
        wait_until("the other is killed, or done", lambda: b.steps.fired or (caller_b.has_answered() and b.has_sent()), 60)
        is_killed = b.steps.fired
        if is_killed:
            print(f"f{number}: killed before step {step}: {b.steps.where}")
            killed += 1
        b.steps.disarm()
        result = caller_c.run(number)
        assert result["right"] and result["native_calls"]
        assert caller_b.answer()["right"]
        caller_a.send_signal(signal.SIGCONT)
        assert caller_a.answer()["right"]
        for host in (a, b):
            host.start()
            wait_until("all is sent", host.has_sent)
        if is_killed:
            assert trio.compiles(c) - before + trio.compiles(a, b) <= 1
        trio.check_leases_end()
        if not is_killed:
            break
    assert killed
    for host in trio.hosts:
        host.cli("verify")
