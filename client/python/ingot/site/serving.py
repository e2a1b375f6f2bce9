# SPDX-License-Identifier: Apache-2.0
"""Which calls the variants of a callable take: bound to this process's objects, and asked by their guards."""

import time
import typing

import torch

from ingot import counters, errors
from ingot.reasons import miss
from ingot.site import binding
from ingot.trace import calls, paths
from ingot.site.entry import SignatureState

if typing.TYPE_CHECKING:
    from ingot.site.engine import Engine


class Serving:
    """The variants of one engine that are bound, or may be."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    def install_all(self, signature: SignatureState, call: calls.Call) -> bool:
        """Binds every variant of the entry to this signature; True when one takes this call."""
        began = time.perf_counter()
        accepted = False
        if signature.declared is not None:
            # Calls with other fixed sizes have variants of the same structure.
            for variant in signature.entry.variants:
                self._engine.site._remove(variant.program) if variant.program is not None else None
        for variant in signature.entry.usable():
            if variant.program is not None:  # The bindings of others stay: their state may return.
                self._engine.site._forget(call.signature_key, call.objects, variant.program)
            accepted = self.install(signature, variant, call) or accepted
            if variant.is_bound_anew_each_time() and self._engine._recordings.moving.add_weights(variant):
                signature.entry.variants.remove(variant)  # One that fetches them takes its place.
                self._engine.site._remove(variant.program)
        counters.add_seconds("bind", time.perf_counter() - began)
        return accepted

    def install(self, signature: SignatureState, variant: binding.Variant, call: calls.Call) -> bool:
        roots = paths.Roots(self._engine.target, call.objects)
        try:
            variant.bind(roots)
            if signature.declared is not None and signature.declared.gears and variant.range:
                # Who declares gears wants those sizes: one recording proves all in its range. Of others is asked first.
                sizes = tuple(tuple(tensor.shape) for tensor in self.inputs(variant, call))
                variant.serve_only(signature.declared.symbols(sizes, variant.artifact.symbol_places()))
            variant.program.set_threads(self._engine.config.threads or 0)
            self._engine.site._install(call.signature_key, variant.parts(roots, self._engine.config.guards))
        except errors.Error as e:
            self._engine._last_miss = miss.Miss("rejected", f"stored but rejected: {e}")
            return False
        return self.accepts(variant, call)

    def accepts(self, variant: binding.Variant, call: calls.Call) -> bool:
        """Whether a bound variant may serve this call."""
        symbols = self.symbols(variant, call)
        return symbols is not None and (not variant.is_template or variant.covers(symbols))

    def symbols(self, variant: binding.Variant, call: calls.Call) -> "tuple[int, ...] | None":
        """The values that a call gives a bound variant's symbols; None where the variant does not take it."""
        try:
            symbols = variant.program.accepts(self.inputs(variant, call)) if variant.program is not None else None
        except errors.Error:  # What it fetches is not there.
            return None
        return None if symbols is None else tuple(symbols)

    def is_served(self, call: calls.Call) -> bool:
        """Whether a bound variant is proved for this call."""
        return self.server_of(call) is not None

    def server_of(self, call: calls.Call) -> "binding.Variant | None":
        """The bound variant that is proved for this call."""
        return next((variant for variant in self.bound() if self.accepts(variant, call)), None)

    def inputs(self, variant: binding.Variant, call: calls.Call) -> "list[torch.Tensor]":
        """The call's tensors and what it fetches; NotFound where nothing that could be fetched lies there."""
        roots = paths.Roots(self._engine.target, call.objects)
        fetched = [binding.fetched(path, roots) for path in variant.signature["inputs"] if path is not None]
        return [*call.tensors, *fetched]

    def proves(self, signature: SignatureState, call: calls.Call) -> bool:
        """Whether a template of declared gears serves a call of other sizes from now on."""
        for variant in signature.entry.usable():
            symbols = self.symbols(variant, call) if variant.range else None
            if symbols is not None:
                variant.serve_only([symbols])
                if variant.covers(symbols):
                    return bool(self._engine.site._prove(call.signature_key, variant.program, variant.proven_here()))
        return False

    def why_not(self, call: calls.Call) -> str:
        """The first guard of a variant that does not hold for this call, else the last miss."""
        for variant in self.bound():
            try:
                why = variant.program.explain(self.inputs(variant, call))
            except errors.Error as e:
                why = str(e)
            symbols = self.symbols(variant, call) if not why else None
            if symbols is not None:
                why = variant.why_not(symbols)
            if why:
                return str(why)
        return self._engine._last_miss.why

    def bound(self) -> "typing.Iterator[binding.Variant]":
        """The variants whose state holds and that are bound."""
        return (v for entry in self._engine._entries.values() for v in entry.usable() if v.program is not None)
