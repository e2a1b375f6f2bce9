# SPDX-License-Identifier: Apache-2.0
"""Whether it pays to bind a variant anew where every call needs that: what it reads is another object each time."""

import time
import typing

_ROW_MIN, _PAIRS, _GAIN = 32, 9, 0.95
_ASKED_EVERY = 256
"""Of the calls that run eagerly since it does not pay, so many pass before one is bound again: its state may last by then."""


class Rebinding:
    """Of one argument structure. Calls that were bound anew and eager ones are measured in turn once there have been many in a row."""

    def __init__(self) -> None:
        self._row, self._served, self._calls = 0, 0, 0
        self._took: "tuple[list[float], list[float]]" = ([], [])
        self.pays: "bool | None" = None
        """None until it has been measured."""

    def is_eager_turn(self) -> bool:
        """Whether the next call runs eagerly, to be measured or because it is faster."""
        if self.pays is False:
            self._calls += 1
            return self._calls % _ASKED_EVERY != 0
        return self.pays is None and len(self._took[1]) < len(self._took[0])

    def run_eagerly(self, call: "typing.Callable[[], typing.Any]") -> typing.Any:
        """The answer of a call whose turn it is."""
        began = time.perf_counter()
        result = call()
        self._took[1].append(time.perf_counter() - began)
        if len(self._took[1]) >= _PAIRS:
            bound, eager = (sorted(took)[_PAIRS // 2] for took in self._took)
            self.pays = bound < _GAIN * eager
        return result

    def was_bound(self, seconds: float, served: int) -> None:
        """A call was bound anew and served, the ``served``-th that variants of its structure served."""
        lasted, self._served = served - self._served > 1, served
        if lasted:
            self._row, self._took, self.pays = 0, ([], []), None
        else:
            self._row += 1
            if self._row > _ROW_MIN and self.pays is None:
                self._took[0].append(seconds)
