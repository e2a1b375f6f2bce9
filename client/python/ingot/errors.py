# SPDX-License-Identifier: Apache-2.0
"""One exception class for each error code; the same list as in C++, on the wire and as exit codes."""


class Error(Exception):
    """Base of everything Ingot raises; ``code`` is the name shared with C++ and the command line."""

    code = "internal"


class Invalid(Error, ValueError):
    """The caller asked for something that can never work."""

    code = "invalid"


class NotFound(Error, KeyError):
    """The normal miss."""

    code = "not_found"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class Corrupt(Error):
    """Bytes that do not match their digest or their grammar."""

    code = "corrupt"


class Incompatible(Error):
    """Well formed, but of another version, target or build."""

    code = "incompatible"


class Unsupported(Error, NotImplementedError):
    """Right, but not something Ingot does."""

    code = "unsupported"


class Exhausted(Error):
    """A named limit was reached."""

    code = "exhausted"


class Timeout(Error, TimeoutError):
    """The deadline passed."""

    code = "timeout"


class Cancelled(Error):
    """Somebody no longer wants the answer."""

    code = "cancelled"


class Unavailable(Error, ConnectionError):
    """The daemon or the store cannot be reached."""

    code = "unavailable"


class Internal(Error):
    """A bug in Ingot."""

    code = "internal"


class HalfDone(Error, RuntimeError):
    """A native call failed after it had written to an input or to the module, which may be half changed now."""

    code = "half_done"


class Denied(Error, PermissionError):
    """Right, but not for this caller: it is for who administers the daemon."""

    code = "denied"


BY_CODE: "dict[int, type[Exception]]" = {2: Invalid, 3: NotFound, 4: Corrupt, 5: Incompatible, 6: Unsupported, 7: Exhausted, 8: Timeout, 9: Cancelled, 10: Unavailable,
                                         11: Internal, 12: HalfDone, 13: Denied}
"""As C++ numbers them."""
