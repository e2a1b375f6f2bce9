# SPDX-License-Identifier: Apache-2.0
"""Options as data classes that know which of their fields somebody has said, and may be assigned until they are used."""

import dataclasses
import typing

from ingot import errors


class Settings:
    """Base of data classes of options. Checks each value when it is set; a wrong one or a wrong name raises Invalid."""

    _said: "set[str]"
    _is_made = False
    _is_used = False

    def __new__(cls, *args: typing.Any, **kwargs: typing.Any) -> "typing.Any":
        made = super().__new__(cls)
        object.__setattr__(made, "_said", {*cls.names()[:len(args)], *kwargs})
        return made

    def __post_init__(self) -> None:
        if len(self._said) == len(self.names()):  # dataclasses.replace: it passes on what nobody said.
            defaults = type(self)()
            self._said.intersection_update(name for name in self.names() if getattr(self, name) != getattr(defaults, name))
        object.__setattr__(self, "_is_made", True)

    @classmethod
    def names(cls) -> "list[str]":
        """The options there are."""
        return [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]

    if not typing.TYPE_CHECKING:  # Checkers would take any name for a field.

        def __setattr__(self, name: str, value: typing.Any) -> None:
            if self._is_used:
                raise errors.Invalid(f"{type(self).__name__}.{name}={value!r}: these settings are in use, and what uses them does not "
                                     "look again; set it before the first use, or use dataclasses.replace and compile again")
            if name not in self.names():
                raise errors.Invalid(f"unknown option {name!r}; the options are {', '.join(sorted(self.names()))}")
            object.__setattr__(self, name, self.checked(name, value))
            if self._is_made:
                self._said.add(name)

    def checked(self, name: str, value: typing.Any) -> typing.Any:
        """The value as it is kept; Invalid says what is expected."""
        raise NotImplementedError

    def said(self) -> "dict[str, typing.Any]":
        """What somebody has said, to be laid over other settings."""
        found: "dict[str, typing.Any]" = {}
        for name in self.names():
            value = getattr(self, name)
            if isinstance(value, Settings):
                value = value.said()
                if value:
                    found[name] = value
            elif name in self._said:
                found[name] = value
        return found

    def lay_over(self, source: str, values: "typing.Mapping[str, typing.Any]", prefix: str = "") -> None:
        """Sets the options of a table, nested ones in tables of theirs; ``source`` is named where one is wrong."""
        for name, value in values.items():
            if name not in self.names():
                raise errors.Invalid(f"{source}: unknown option {prefix + str(name)!r}; the options are "
                                     f"{', '.join(prefix + known for known in sorted(self.names()))}")
            inner = getattr(self, name)
            try:
                if isinstance(inner, Settings) and isinstance(value, typing.Mapping):
                    inner.lay_over(source, value, f"{prefix}{name}.")
                elif isinstance(inner, Settings) and isinstance(value, type(inner)):
                    inner.lay_over(source, value.said(), f"{prefix}{name}.")
                else:
                    setattr(self, name, value)
            except errors.Invalid as e:
                raise e if str(e).startswith(source) else errors.Invalid(f"{source}: {e}") from None

    def use(self) -> None:
        """From now on assignments are refused: they would change nothing."""
        for name in self.names():
            if isinstance(getattr(self, name), Settings):
                getattr(self, name).use()
        object.__setattr__(self, "_is_used", True)

    def __getstate__(self) -> "dict[str, typing.Any]":
        """Copies are not in use."""
        return {**{name: value for name, value in vars(self).items() if name != "_is_used"}, "_said": set(self._said)}
