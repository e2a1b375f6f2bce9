# SPDX-License-Identifier: Apache-2.0
"""How a structure that is no one graph comes apart: into pieces of its function, and modules that it calls."""

import json
import sys
import typing

from ingot import counters, errors
from ingot.breaks import parts
from ingot.site import miss
from ingot.trace import calls
from ingot.site.entry import Entry, SignatureState

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine


def split(engine: "Engine", signature: SignatureState, why: str, call: calls.Call) -> typing.Any:
    """The eager answer of a call: what lies between the statements in which values leave the graph, and the modules that are called, is
    compiled from now on."""
    if sys.getprofile() is not None:
        return engine._refusals.answer("retired", why, call.args, call.kwargs)
    from ingot.breaks import pieces  # Few programs need it, and what takes code apart is large.

    signature.parts = 0
    cut, known = pieces.Cut.of(engine, why), signature.entry.note
    result = cut.survey.run(call.args, call.kwargs)
    note = cut.survey.note(why)
    if signature.eager_reason is None and (known is None or not known.agrees(note)):
        signature.parts, signature.entry.note = None, None  # The program has changed since.
        return result
    with engine._lock:
        in_pieces = cut.in_pieces()
        made = [parts.make(module, engine) for module in cut.survey.modules()]
        signature.parts = len(made) + (in_pieces is not None)
        engine._parts.update(made)
        signature.stays_whole = cut.stays_whole
        engine._refusals.stay_eager(signature, why)
        engine._last_miss = miss.Miss("in_parts" if signature.parts else "refused", signature.why_eager())
        if signature.parts:
            # What its variants do before a guard fails would be done twice.
            engine.site._forget(signature.key, call.objects)
            engine.site._refuse(signature.key, in_pieces)
    if signature.parts:
        counters.add("parts", len(made))
        what = f"{len(made)} modules" + (" and pieces of itself" if in_pieces is not None else "")
        engine._refusals.warn_once("parts", f"{engine.name} runs in parts, {what} with Python between them: {why}")
        if known is None:
            signature.entry.note = note
            tell(engine, signature.entry, note)
    return result


def tell(engine: "Engine", entry: Entry, note: parts.Note) -> None:
    """Lets the next process know at once what this one had to find out."""
    try:
        query = json.dumps({"components": entry.key.components, "note": note.to_text()})
        engine._link.get(engine.config.first_lookup_ms_max).query("split", query)
    except errors.Error as e:
        engine._note_daemon_error(e)
