# SPDX-License-Identifier: Apache-2.0
"""Lets a program that calls and calls run on for a moment before anything is made for it.

A compile takes a core, and PyTorch's threads wait for each other: where there are few cores, the first calls would pay for those after
them. So work begins when the program pauses, or soon at any rate.
"""

import threading
import time

from ingot import _native

_PAUSE_S = 0.003
_SECONDS_MAX = 0.1


def wait(since: float, hurry: threading.Event) -> None:
    """Until the program pauses; not longer than until soon after ``since`` (of ``time.monotonic``), nor once somebody is in a hurry."""
    while not hurry.is_set() and time.monotonic() - since < _SECONDS_MAX and _native.pause_s() < _PAUSE_S:
        hurry.wait(_PAUSE_S)
