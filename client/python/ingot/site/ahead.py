# SPDX-License-Identifier: Apache-2.0
"""What is done ahead of calls: gears proved before they are asked for, recordings saved for ``ingot warm``."""

import typing

import torch

from ingot import _native, errors, gears
from ingot.reasons import advice
from ingot.trace import groups, keys, recording

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine

Arguments = tuple[tuple[typing.Any, ...], dict[str, typing.Any]]


def prepare(engine: "Engine", args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> None:
    """Has every gear of these example inputs recorded and proved, and waits."""
    with torch.no_grad():
        if groups.initialized():
            engine.site(*args, **kwargs)
            # Ranks may communicate in a call: each makes the same calls, whatever it has in its store.
            for more_args, more_kwargs in _other_gears(engine, args, kwargs):
                engine.site(*more_args, **more_kwargs)
        elif engine.config.capture == "export":
            engine.site(*args, **kwargs)
            engine.wait()  # One range may hold every gear.
            _prove(engine, _unserved(engine, args, kwargs))
        else:
            _prove(engine, _first_two(engine, args, kwargs))
    engine.wait()
    engine.expect_calls()


def _first_two(engine: "Engine", args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> "list[Arguments]":
    """Records the example and another gear, and sends both together: they make a template, and nothing is compiled for the
    example alone. Gives the gears that are left."""
    with engine._compiles.holding() as held:
        engine.site(*args, **kwargs)
        others = _unserved(engine, args, kwargs)
        if held and others and not held[0].signature.may_defer():
            more_args, more_kwargs = others.pop(0)
            engine.site(*more_args, **more_kwargs)
    return others


def _unserved(engine: "Engine", args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> "list[Arguments]":
    return [one for one in _other_gears(engine, args, kwargs) if not engine._serving.is_served(engine._flattener.of(*one))]


def _prove(engine: "Engine", calls: "list[Arguments]") -> None:
    """Records without computing where that can prove a call, then runs what is not proved."""
    for args, kwargs in calls:
        if not engine._recordings.defer(args, kwargs):
            engine.site(*args, **kwargs)
    engine.wait()
    for one in calls:
        if not engine._serving.is_served(engine._flattener.of(*one)):
            engine.site(*one[0], **one[1])


def capture_file(engine: "Engine", args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> bytes:
    """The recordings of every gear of these example inputs, as a file."""
    declared = gears.declared(engine._flattener.of(args, kwargs).tensors, engine.config.gears.merge)
    with torch.no_grad():
        captures = [_capture(engine, one, declared) for one in [(args, kwargs), *_other_gears(engine, args, kwargs)]]
    return bytes(_native.capture_file(captures))


def _capture(engine: "Engine", one: Arguments, declared: "gears.Declared | None") -> "tuple[typing.Any, ...]":
    call = engine._flattener.of(*one)
    engine._declared[call.signature_key] = declared
    run = engine._recordings.prepare(call)
    try:
        captured = run.finish(run.run())
    except recording.Refused as e:
        raise errors.Unsupported(f"{engine.name}: {advice.sentence(e.name, e.detail)}") from None
    key = keys.entry_key(engine.target, *one, call.objects, engine.config, declared, call.sizes())
    return (key.components, captured.recording, captured.signature, captured.record, gears.is_dynamic(engine.config, declared),
            engine.config.numerics == "eager", [pattern.wire() for pattern in key.patterns],
            engine.sequence_parallel(captured.signature))


def _other_gears(engine: "Engine", args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]") -> "typing.Iterator[Arguments]":
    """(args, kwargs) in every gear but the example's own."""
    call = engine._flattener.of(args, kwargs)
    declared, sizes = gears.declared(call.tensors, engine.config.gears.merge), call.sizes()
    if declared is None:
        return
    # A size of 1 tends to have code of its own; two others make the template.
    for gear in sorted(declared.gears, key=lambda gear: (1 in gear, gear)):
        if gear != declared.gear(sizes):
            made = [gears.resized(t, size) for t, size in zip(call.tensors, declared.with_gear(sizes, gear))]
            yield gears.replaced((args, kwargs), call.tensors, made)
