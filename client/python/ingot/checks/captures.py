# SPDX-License-Identifier: Apache-2.0
"""Calls that native code answered otherwise than eager, on disk: what a report of that needs (docs/format/capture.md)."""

import logging
import pathlib
import shutil
import tempfile
import typing

import torch

from ingot import _native, config, gears
from ingot.trace import recording

if typing.TYPE_CHECKING:
    from ingot.site import binding
    from ingot.checks.comparison import Comparison
    from ingot.site.engine import Engine
    from ingot.site.entry import Entry

log = logging.getLogger("ingot")


def folder(settings: config.Config) -> pathlib.Path:
    """Where those of a store and this build lie."""
    return pathlib.Path(settings.store_dir or config.store_directory()) / _native.build / "captures"


def save(engine: "Engine", entry: "Entry", captured: "recording.Captured", comparison: "Comparison", variant: "binding.Variant",
         difference: str) -> "pathlib.Path | None":
    """Keeps a call, the newest ``agree_captures_max`` of them; None where none is kept."""
    settings = engine.config
    if settings.agree_captures_max == 0:
        return None
    into = folder(settings)
    try:
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in sorted(into.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)[settings.agree_captures_max - 1:]:
            shutil.rmtree(old, ignore_errors=True)
        made = pathlib.Path(tempfile.mkdtemp(prefix=f"{variant.artifact_digest[:12]}-", dir=into))
        (made / "recording.capture").write_bytes(_native.capture_file([_message(engine, entry, captured)]))
        torch.save(_call(engine, comparison, variant, difference), made / "call.pt")
    except OSError as e:
        log.warning("%s: the call is not kept for a report: %s", engine.name, e)
        return None
    return made


def _message(engine: "Engine", entry: "Entry", captured: "recording.Captured") -> "tuple[typing.Any, ...]":
    return (entry.key.components, captured.recording, captured.signature, captured.record, gears.is_dynamic(engine.config, None),
            engine.config.numerics == "eager", [pattern.wire() for pattern in entry.key.patterns],
            engine.sequence_parallel(captured.signature))


def _call(engine: "Engine", comparison: "Comparison", variant: "binding.Variant", difference: str) -> "dict[str, typing.Any]":
    kept = comparison.kept
    return {"function": engine.name, "artifact": variant.artifact_digest, "build": _native.build, "torch": str(torch.__version__),
            "difference": difference, "inputs": kept.inputs, "inputs_after": kept.inputs_after, "weights_before": kept.weights_before,
            "weights_after": kept.weights_after, "answers": kept.leaves, "native": [tensor.clone() for tensor in comparison.found]}
