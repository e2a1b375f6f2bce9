# SPDX-License-Identifier: Apache-2.0
"""Whether it pays to bind a variant anew where every call needs that: what it reads is another object each time."""

import logging
import time
import typing

log = logging.getLogger("ingot")
_ROW_MIN = 32
_PAIRS, _GAIN = 9, 0.95


class Rebinding:
    """Of one argument structure. Calls that were bound anew and eager ones are measured in turn once there have been many in a row."""

    def __init__(self) -> None:
        self.pays: "bool | None" = None
        """None until as many of both have been measured as it takes; then medians decide."""
        self._row, self._served, self._is_asked = 0, 0, False
        self._forget()

    def _forget(self) -> None:
        self._took: "tuple[list[float], list[float]]" = ([], [])

    def _note(self, is_eager: bool, seconds: float) -> None:
        self._took[is_eager].append(seconds)
        if min(map(len, self._took)) >= _PAIRS:
            bound, eager = (sorted(took)[_PAIRS // 2] for took in self._took)
            self.pays = bound < _GAIN * eager
            log.debug("bound anew: %.3f ms, eager %.3f ms", bound * 1e3, eager * 1e3)

    def is_eager_turn(self) -> bool:
        """Whether the next call runs eagerly, to be measured, or because that is faster: then so do many after it, and the one behind
        those is bound, since its state may last by then."""
        if self.pays is False:
            self._is_asked = not self._is_asked
            return self._is_asked
        return self.pays is None and len(self._took[1]) < len(self._took[0])

    def run_eagerly(self, call: "typing.Callable[[], typing.Any]") -> typing.Any:
        """The answer of a call whose turn it is."""
        began = time.perf_counter()
        result = call()
        self._note(True, time.perf_counter() - began)
        return result

    def was_bound(self, seconds: float, served: int) -> None:
        """A call was bound anew and served, the ``served``-th that variants of its structure served."""
        lasted, self._served = served - self._served > 1, served
        if lasted:
            self._row, self.pays = 0, None
            self._forget()
            return
        self._row += 1
        if self._row > _ROW_MIN and self.pays is None:
            self._note(False, seconds)
