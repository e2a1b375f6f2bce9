# SPDX-License-Identifier: Apache-2.0
"""Places that hold something else from call to call."""

import typing

from ingot import errors
from ingot.site import binding
from ingot.trace import paths

_PLACES_MAX = 1024


class Moving:
    """Places that calls have read and changed: what lies there is fetched, not a part of what every call does."""

    def __init__(self) -> None:
        self.places: "set[paths.Path]" = set()

    def add(self, places: "typing.Iterable[paths.Path]") -> None:
        """Whatever lies there is another in every call."""
        self.places.update(places)

    def add_found(self, found: "typing.Collection[paths.Path]") -> bool:
        """What one run has found, where there is room for any; whether all of it is fetched now."""
        if len(self.places) < _PLACES_MAX:
            self.places.update(found)
        return self.places.issuperset(found)

    def add_numbers(self, places: "list[paths.Path]", roots: paths.Roots) -> None:
        """Numbers that are others in every call, whoever changes them between calls."""
        for where in places:
            try:
                is_number = type(paths.resolve(where, roots)) in (int, float)
            except errors.NotFound:
                continue
            if is_number and len(self.places) < _PLACES_MAX:
                self.places.add(where)

    def add_weights(self, variant: binding.Variant) -> bool:
        """The weights of a variant that are others in every call; False where there is no room for them."""
        has_room = len(self.places) + len(variant.changed_weights) <= _PLACES_MAX
        if has_room:
            self.places.update(variant.changed_weights)
        return has_room
