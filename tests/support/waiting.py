# SPDX-License-Identifier: Apache-2.0
"""How tests in Python wait for what gives no word of itself, and the programs that they start as well: it loads nothing of Ingot's.

No other loop of a test sleeps (tools/tidy.py).
"""

import time
import typing

_PAUSE_S_MIN, _PAUSE_S_MAX = 0.001, 0.05


def wait_until(what: str, is_so: "typing.Callable[[], typing.Any]", seconds: float = 60.0) -> None:
    """Comes back once `is_so()`, which is asked at least once; AssertionError names `what` where that takes too long."""
    end, pause_s = time.monotonic() + seconds, _PAUSE_S_MIN
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _PAUSE_S_MAX)
