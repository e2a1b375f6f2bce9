# SPDX-License-Identifier: Apache-2.0
"""Ingot: cast once, serve every process. A compilation cache for PyTorch inference.

    step = ingot.compile(model)          # any function, module or bound method
    with torch.no_grad():
        step(x)                          # first call: eager speed, recorded; later calls: native code
"""

import logging
import typing

from ingot import compatibility, errors
from ingot_everywhere import everywhere

if typing.TYPE_CHECKING or compatibility.misfit() is None:
    from ingot import _native

    _native.register_errors(errors.BY_CODE)
    __version__ = _native.version

    from ingot.accelerating import accelerate
    from ingot.adopting import adopt_
    from ingot.api import cache_compile, compile, load, mark_pure
    from ingot.counters import stats
    from ingot.kernels import build_kernel, register_kernel
    from ingot.machine import Roofs, roofs
    from ingot.patterns import register_pattern, unregister_pattern
    from ingot.profiling import Profile, profile
    from ingot.tuning import Contest, tune
    from ingot.types import Compiled, CompiledModule
else:
    logging.getLogger("ingot").warning("everything runs eagerly: %s", compatibility.misfit())
    from ingot.adopting import adopt_
    from ingot.eager import __version__  # noqa: F401  as _native's
    from ingot.eager import (Compiled, CompiledModule, Contest, Profile, Roofs, accelerate, build_kernel, cache_compile, compile, load, mark_pure, profile,
                             register_kernel, register_pattern, roofs, stats, tune, unregister_pattern)

from ingot.config import Config, Gears
from ingot.errors import Cancelled, Corrupt, Denied, Error, Exhausted, HalfDone, Incompatible, Internal, Invalid, NotFound, Timeout, Unavailable, Unsupported
from ingot.gears import mark_static, set_dim_gears
from ingot.quantizing import QuantizedLinear, quantize_

__all__ = ["Cancelled", "Compiled", "CompiledModule", "Config", "Contest", "Corrupt", "Denied", "Error", "Exhausted", "Gears", "HalfDone", "Incompatible", "Internal", "Invalid",
           "NotFound", "Profile", "QuantizedLinear", "Roofs", "Timeout", "Unavailable", "Unsupported", "accelerate", "adopt_", "build_kernel", "cache_compile", "compile",
           "everywhere", "load", "mark_pure", "mark_static", "profile", "quantize_", "register_kernel", "register_pattern", "roofs", "set_dim_gears", "stats", "tune",
           "unregister_pattern"]
