# SPDX-License-Identifier: Apache-2.0
"""What a compiled callable says of itself, for people."""

import json
import os
import typing

from ingot import _native, errors, profiling
from ingot.site.entry import Entry

Entries = typing.Iterable[Entry]


class Report(str):
    """Text for people, and behind it what was measured last, where something was."""

    profile: "profiling.Profile | None"

    def __new__(cls, text: str, profile: "profiling.Profile | None") -> "Report":
        made = super().__new__(cls, text)
        made.profile = profile
        return made

    @property
    def steps(self) -> "list[profiling.Step]":
        """Of all calls that were measured; none where nothing was."""
        return self.profile.steps if self.profile is not None else []

    def to_dict(self) -> "dict[str, typing.Any]":
        """``text``, and ``profile`` (None where nothing was measured), as JSON takes it."""
        return {"text": str(self), "profile": self.profile.to_dict() if self.profile is not None else None}

    def save_timeline(self, path: "str | os.PathLike[str]") -> None:
        """As that of the profile; NotFound where nothing was measured."""
        if self.profile is None:
            raise errors.NotFound(UNMEASURED)
        self.profile.save_timeline(path)


UNMEASURED = "no call was measured: give report() the arguments of one, or make calls inside `with ingot.profile(f)`"


def variants(entries: Entries) -> "list[dict[str, typing.Any]]":
    """One dict a variant: kind, proven sizes, artifact digest and bytes, step counts."""
    return [{"kind": "template" if variant.is_template else "exact", "proven": variant.proven, "range": variant.range,
             "artifact": variant.artifact_digest, "bytes": variant.artifact_bytes, **variant.artifact.provenance()}
            for entry in entries for variant in entry.usable()]


def text(name: str, entries: Entries, eager_reasons: "list[str]", last_miss: str, last_error: "str | None",
         parts: typing.Iterable[str] = ()) -> str:
    """Variants, what runs natively, what was refused and why; the same of its parts."""
    known = variants(entries)
    lines = [f"{name}: {len(known)} variants"]
    for v in known:
        sizes = (f", sizes {v['proven']}" if v["proven"] else "") + (f", range {v['range']}" if v["range"] else "")
        lines.append(f"  {v['kind']} {v['artifact'][:12]} {v['bytes']} bytes, {v['native_steps']} native + {v['aten_steps']} ATen steps, "
                     f"arena {v['arena_bytes']} bytes (least {v['arena_bytes_min']}){sizes}")
        lines += [f"    pattern {name}: replaced {replaced} times" + (f"; not where {why}" if why else "") if replaced
                  else f"    pattern {name}: replaced nothing: {why}" for name, replaced, why in v.get("patterns", ())]
    lines += [f"  eager: {reason}" for reason in eager_reasons]
    lines.append(f"  last miss: {last_miss}")
    if last_error:
        lines.append(f"  last error: {last_error}")
    lines += [f"  {line}" for part in parts for line in part.split("\n")]
    return "\n".join(lines)


def soundness(entries: Entries) -> str:
    """What is proved whenever a variant is loaded, what is assumed, and what fixed sizes; in the words of ``ingot inspect``."""
    lines: "dict[str, None]" = {}
    for entry in entries:
        for name, items in entry.key.components:
            if items and entry.usable():
                lines[f"proved: {name} is as the entry key has it ({', '.join(item[0] for item in items[:3])}{', ...' if len(items) > 3 else ''})"] = None
        for variant in entry.usable():
            lines.update((_native.dependency_words(kind, where, short), None) for kind, where, _, short in variant.record.rows())
            lines.update((f"fixed: {why}", None) for why in variant.fixed)
            lines.update((f"{variant.artifact_digest[:12]} {words}", None) for words in variant.agreed.words())
    return "\n".join(lines) or "nothing recorded yet"


def as_text(name: str, entries: Entries, stage: str, ask: "typing.Callable[[str], str]") -> str:
    """A stage of the newest variant; ``ask`` asks the daemon for those that only the compiler has."""
    for entry in entries:
        for variant in entry.usable():
            if stage == "guards":
                return str(variant.artifact.guards_text()) + (f"range: {variant.range}\n" if variant.range else "")
            if stage == "plan":
                return str(variant.artifact.plan_text())
            return str(json.loads(ask(json.dumps({"graph": variant.graph, "stage": stage})))["text"])
    raise errors.NotFound(f"{name} has no variant yet: call it first, then wait()")
