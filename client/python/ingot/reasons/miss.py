# SPDX-License-Identifier: Apache-2.0
"""Why a call was not served from the store: a stable reason for programs, words for people."""

import json
import typing

from ingot import errors


class Miss(typing.NamedTuple):
    """``reason`` is one of docs/cli.md's, or ``not_called``, ``refused``, ``no_gear``, ``opaque``, ``in_parts``, ``slower``, ``unreachable``;
    ``details`` name the nearest stored entry and where it differs first."""

    reason: str
    why: str
    details: "dict[str, str]" = {}


NOT_CALLED = Miss("not_called", "not called yet")


def of_reply(reply: "dict[str, typing.Any]") -> Miss:
    """What the daemon said of a lookup that found nothing usable."""
    found = dict(reply.get("miss") or {})
    reason = found.pop("reason", "never_stored")
    return Miss(reason, reply.get("why") or "never stored", {"key": reply["entry"], **found})


def nothing_stored(name: str) -> Miss:
    """There is no store yet that could be asked."""
    return Miss("never_stored", f"never stored: no entry of function {name}")


def unreachable(error: errors.Error) -> Miss:
    """The daemon could not be asked."""
    return Miss("unreachable", f"the daemon cannot be asked: {error}")


def graph_difference(miss: Miss, connection: typing.Any) -> "str | None":
    """Where the graphs of the nearest entry and of this one differ, once both are stored; None until then."""
    if "nearest" not in miss.details:
        return None
    pair = {"a": miss.details["nearest"], "b": miss.details["key"]}
    try:
        found = json.loads(connection.query("diff", json.dumps(pair)))["graph"]
    except errors.Error:  # Not compiled yet, or evicted meanwhile.
        return None
    return None if found is None else str(found["text"])
