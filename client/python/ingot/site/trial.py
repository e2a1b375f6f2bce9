# SPDX-License-Identifier: Apache-2.0
"""Whether a way of answering calls pays: calls that take it and calls of the plain function, measured in turn."""

import logging

log = logging.getLogger("ingot")


class Trial:
    """``pays`` is None until as many of both have been measured as it takes; then medians decide."""

    _PAIRS, _GAIN = 9, 0.95

    def __init__(self) -> None:
        self.pays: "bool | None" = None
        self.forget()

    def forget(self) -> None:
        """What has been measured so far."""
        self._took: "tuple[list[float], list[float]]" = ([], [])

    def is_turn_of_plain(self) -> bool:
        """Whether fewer plain calls have been measured."""
        return len(self._took[1]) < len(self._took[0])

    def note(self, is_plain: bool, seconds: float) -> None:
        self._took[is_plain].append(seconds)
        if min(map(len, self._took)) >= self._PAIRS:
            way, plain = (sorted(took)[self._PAIRS // 2] for took in self._took)
            self.pays = way < self._GAIN * plain
            log.debug("%s: %.3f ms, the plain function %.3f ms", type(self).__name__, way * 1e3, plain * 1e3)
