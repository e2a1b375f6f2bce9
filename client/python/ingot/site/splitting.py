# SPDX-License-Identifier: Apache-2.0
"""How a structure that is no one graph comes apart: into pieces of its function, and modules that it calls."""

import json
import sys
import typing

from ingot import counters, errors
from ingot.breaks import parts
from ingot.site import miss
from ingot.trace import calls
from ingot.site.entry import Entry, Shape

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine


def split(engine: "Engine", shape: Shape, why: str, call: calls.Call) -> typing.Any:
    """The eager answer of a call: what lies between the statements in which values leave the graph, and the modules that are called, is
    compiled from now on."""
    if sys.getprofile() is not None:
        return engine._refusals.answer("retired", why, call.args, call.kwargs)
    from ingot.breaks import pieces  # Few programs need it, and what takes code apart is large.

    shape.parts = 0
    cut, known = pieces.Cut.of(engine, why), shape.entry.note
    result = cut.survey.run(call.args, call.kwargs)
    note = cut.survey.note(why)
    if shape.eager_reason is None and (known is None or not known.agrees(note)):
        shape.parts, shape.entry.note = None, None  # The program has changed since.
        return result
    with engine._lock:
        in_pieces = cut.in_pieces()
        made = [parts.make(module, engine) for module in cut.survey.modules()]
        shape.parts = len(made) + (in_pieces is not None)
        engine._parts.update(made)
        shape.stays_whole = cut.stays_whole
        engine._refusals.stay_eager(shape, why)
        engine._last_miss = miss.Miss("in_parts" if shape.parts else "refused", shape.why_eager())
        if shape.parts:
            # What its variants do before a guard fails would be done twice.
            engine.site._forget(shape.key, call.objects)
            engine.site._refuse(shape.key, in_pieces)
    if shape.parts:
        counters.add("parts", len(made))
        what = f"{len(made)} modules" + (" and pieces of itself" if in_pieces is not None else "")
        engine._refusals.warn_once("parts", f"{engine.name} runs in parts, {what} with Python between them: {why}")
        if known is None:
            shape.entry.note = note
            tell(engine, shape.entry, note)
    return result


def tell(engine: "Engine", entry: Entry, note: parts.Note) -> None:
    """Lets the next process know at once what this one had to find out."""
    try:
        query = json.dumps({"components": entry.key.components, "note": note.to_text()})
        engine._link.get(engine.config.first_lookup_ms_max).query("split", query)
    except errors.Error as e:
        engine._note_daemon_error(e)
