# SPDX-License-Identifier: Apache-2.0
"""Whether it pays to bind a variant anew where every call needs that: what it reads is another object each time."""

import time
import typing

from ingot.site import trial

_ROW_MIN = 32
_ASKED_EVERY = 256
"""Of the calls that run eagerly since it does not pay, so many pass before one is bound again: its state may last by then."""


class Rebinding(trial.Trial):
    """Of one argument structure. Calls that were bound anew and eager ones are measured in turn once there have been many in a row."""

    def __init__(self) -> None:
        super().__init__()
        self._row, self._served, self._calls = 0, 0, 0

    def is_eager_turn(self) -> bool:
        """Whether the next call runs eagerly, to be measured or because it is faster."""
        if self.pays is False:
            self._calls += 1
            return self._calls % _ASKED_EVERY != 0
        return self.pays is None and self.is_turn_of_plain()

    def run_eagerly(self, call: "typing.Callable[[], typing.Any]") -> typing.Any:
        """The answer of a call whose turn it is."""
        began = time.perf_counter()
        result = call()
        self.note(True, time.perf_counter() - began)
        return result

    def was_bound(self, seconds: float, served: int) -> None:
        """A call was bound anew and served, the ``served``-th that variants of its structure served."""
        lasted, self._served = served - self._served > 1, served
        if lasted:
            self._row, self.pays = 0, None
            self.forget()
            return
        self._row += 1
        if self._row > _ROW_MIN and self.pays is None:
            self.note(False, seconds)
