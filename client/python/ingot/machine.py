# SPDX-License-Identifier: Apache-2.0
"""What this machine can do at most, measured once and kept: what times of steps are held against."""

import dataclasses
import functools
import json
import logging
import os
import pathlib
import tempfile
import threading
import time

import torch

from ingot import _native, config

log = logging.getLogger("ingot")
_lock = threading.Lock()
_known: "dict[int, Roofs]" = {}
_FORM = 1
_MEASURED = ("read_bytes", "copy_bytes", "f32_flops", "bf16_flops")


@dataclasses.dataclass(frozen=True)
class Roofs:
    """Rates per second that nothing exceeds for long, of all ``threads`` together; 0: the machine has no such instruction."""

    cpu: str
    threads: int
    read_bytes: float
    """Read from memory, beyond all caches."""
    copy_bytes: float
    """Read from memory and written to it."""
    f32_flops: float
    bf16_flops: float

    @property
    def memory_bytes(self) -> float:
        """Bytes moved to and from memory."""
        return max(self.read_bytes, self.copy_bytes)

    def flops(self, dtype: str) -> float:
        """Floating-point operations of an element type."""
        if dtype == "bf16" and self.bf16_flops > 0:
            return self.bf16_flops
        return self.f32_flops / 2 if dtype == "f64" else self.f32_flops

    def __str__(self) -> str:
        bf16 = f", {self.bf16_flops / 1e9:,.0f} of bf16" if self.bf16_flops else ""
        return (f"{self.cpu}, {self.threads} threads: memory {self.memory_bytes / 1e9:,.1f} GB/s, "
                f"{self.f32_flops / 1e9:,.0f} GFLOP/s of f32{bf16}")


def roofs(*, again: bool = False) -> Roofs:
    """The roofs for as many threads as torch uses now. The first time on a machine they are measured, which takes some tenths of a
    second; they are kept in the store directory. ``again`` measures anew: what was measured on a busy machine is too low."""
    threads = torch.get_num_threads()
    with _lock:
        if again or threads not in _known:
            path = pathlib.Path(config.store_directory(), "roofs.json")
            found = None if again else _read(path, threads)
            if found is None:
                found = _measure(threads)
                _write(path, found)
            _known[threads] = found
        return _known[threads]


@functools.cache
def _cpu() -> str:
    """The processor's name, as the system has it."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _measure(threads: int) -> Roofs:
    measured = _native.measure_roofs(threads)
    if "amx_bf16" in _native.cpu_features():
        # Its tiles are the library's to set up.
        measured["bf16_flops"] = max(measured["bf16_flops"], _product_flops())
    return Roofs(_cpu(), threads, **measured)


def _product_flops(size: int = 1024) -> float:
    a = torch.ones(size, size, dtype=torch.bfloat16)
    best = 0.0
    with torch.no_grad():
        for _ in range(5):
            began = time.perf_counter()
            torch.mm(a, a)
            best = max(best, 2.0 * size**3 / (time.perf_counter() - began))
    return best


def _key(threads: int) -> str:
    return f"{_cpu()} / {threads}"


def _read_all(path: pathlib.Path) -> "dict[str, dict[str, float]]":
    """What the file holds, as far as it can be read: it is measured again where not."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        kept = content["roofs"] if content["form"] == _FORM else {}
        return {key: {name: float(one[name]) for name in _MEASURED} for key, one in kept.items() if set(one) == set(_MEASURED)}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _read(path: pathlib.Path, threads: int) -> "Roofs | None":
    kept = _read_all(path).get(_key(threads))
    is_sound = kept is not None and all(0 <= rate < 1e18 for rate in kept.values()) and kept["f32_flops"] > 0
    return Roofs(_cpu(), threads, **kept) if is_sound else None  # type: ignore[arg-type]


def _write(path: pathlib.Path, found: Roofs) -> None:
    """Keeps them where a store is; elsewhere each process measures."""
    if not path.parent.is_dir():
        return
    kept = {**_read_all(path), _key(found.threads): {name: getattr(found, name) for name in _MEASURED}}
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".roofs", delete=False, encoding="utf-8") as file:
            json.dump({"form": _FORM, "roofs": kept}, file, indent=1)
        os.replace(file.name, path)
    except OSError as e:
        log.debug("roofs are not kept: %s", e)


def _forked() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)
