# SPDX-License-Identifier: Apache-2.0
"""How a structure that is no one graph comes apart: into pieces of its function, and modules that it calls."""

import logging
import sys
import typing

from ingot import counters
from ingot.breaks import parts
from ingot.reasons import miss
from ingot.trace import calls
from ingot.site.entry import SignatureState

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine

log = logging.getLogger("ingot")


def split(engine: "Engine", signature: SignatureState, why: str, call: calls.Call) -> typing.Any:
    """The eager answer of a call: what lies between the statements in which values leave the graph, and the modules that are called, is
    compiled from now on."""
    known = signature.entry.note if signature.entry.note is not None and signature.entry.note.why == why else None
    reason = known.reason if known is not None else "refused"
    if not engine._comes_apart() or known is not None and not known.comes_apart:
        if engine._comes_apart():
            signature.parts = 0
            engine._refusals.stay_eager(signature, why)
        else:
            signature.refuse(why)  # Each call says so.
        result = engine._refusals.answer("retired", why, call.args, call.kwargs)
        engine._last_miss = miss.Miss(reason, why)
        return result
    if sys.getprofile() is not None:
        return engine._refusals.answer("retired", why, call.args, call.kwargs)
    from ingot.breaks import pieces  # Few programs need it, and what takes code apart is large.

    signature.parts = 0
    cut = pieces.Cut.of(engine, why)
    result = cut.survey.run(call.args, call.kwargs)
    with engine._lock:
        in_pieces = cut.in_pieces()
        made = [parts.make(module, engine) for module in cut.survey.modules()]
        signature.parts = len(made) + (in_pieces is not None)
        engine._parts.update(made)
        signature.stays_whole = cut.stays_whole
        engine._refusals.stay_eager(signature, why)
        engine._last_miss = miss.Miss("in_parts" if signature.parts else reason, signature.why_eager())
        if signature.parts:
            # What its variants do before a guard fails would be done twice.
            engine.site._forget(signature.key, call.objects)
            engine.site._refuse(signature.key, in_pieces, True)
    if signature.parts:
        counters.add("parts", len(made))
        what = f"{len(made)} modules" + (" and pieces of itself" if in_pieces is not None else "")
        log.info("%s runs in parts, %s with Python between them: %s", engine.name, what, why)
    engine._learnt.tell_eager(signature, why, bool(signature.parts), reason)
    return result
