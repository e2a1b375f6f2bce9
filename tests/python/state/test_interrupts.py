# SPDX-License-Identifier: Apache-2.0
"""Signals at any moment of any call: those of tests/fuzz/interrupts, for some seconds."""

import pathlib
import signal
import subprocess
import sys

import pytest

FUZZER = pathlib.Path(__file__).parents[2] / "fuzz" / "interrupts"


def test_interrupted_anywhere():
    done = subprocess.run([sys.executable, str(FUZZER), "8"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 wrong, " in done.stdout


def test_a_handler_that_takes_itself_back_before_it_raises(ingot):
    from ingot.trace import interrupts

    def handler(number, frame):
        signal.signal(signal.SIGUSR1, before)
        raise ValueError

    before = signal.getsignal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, handler)
    interrupts.codes()  # As at the start of a recording.
    with pytest.raises(ValueError) as raised:
        signal.raise_signal(signal.SIGUSR1)
    assert interrupts.is_one(raised.value)
    assert not interrupts.is_one(ValueError())


def test_a_recording_that_could_not_be_sent_keeps_nobody_waiting(ingot, monkeypatch):
    """As where a handler raises in between."""
    import torch

    from ingot.site import background

    def interrupted(runner, job):
        raise KeyboardInterrupt

    step = ingot.compile(lambda x: x * 2 + 1)
    with monkeypatch.context() as patch:
        patch.setattr(background, "submit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(torch.ones(3))
    assert step.wait(0)
    before = ingot.stats()["captures"]
    assert torch.equal(step(torch.ones(3)), torch.full((3,), 3.0))
    assert step.wait(60) and ingot.stats()["captures"] == before + 1, step.report()
