# SPDX-License-Identifier: Apache-2.0
"""Ingot: cast once, serve every process. A compilation cache for PyTorch inference.

    step = ingot.compile(model)          # any function, module or bound method
    with torch.no_grad():
        step(x)                          # first call: eager speed, recorded; later calls: native code
"""

from ingot import _built_for, compatibility

compatibility.check_python(compatibility.this_python(), _built_for.PYTHON)

import torch  # noqa: E402  the extension links against it

compatibility.check_torch(torch.__version__, _built_for.TORCH)

from ingot import _native  # noqa: E402

__version__ = _native.version

from ingot.accelerating import accelerate  # noqa: E402
from ingot.adopting import adopt_  # noqa: E402
from ingot.api import cache_compile, compile, load, mark_pure  # noqa: E402
from ingot.config import Config, Gears  # noqa: E402
from ingot.errors import (Cancelled, Corrupt, Error, Exhausted, HalfDone, Incompatible, Internal, Invalid, NotFound,  # noqa: E402
                          Timeout, Unavailable, Unsupported)
from ingot.counters import stats  # noqa: E402
from ingot.gears import mark_static, set_dim_gears  # noqa: E402
from ingot.kernels import build_kernel, register_kernel  # noqa: E402
from ingot.machine import Roofs, roofs  # noqa: E402
from ingot.patterns import register_pattern, unregister_pattern  # noqa: E402
from ingot.profiling import Profile, profile  # noqa: E402
from ingot.quantizing import QuantizedLinear, quantize_  # noqa: E402

from ingot.tuning import Contest, tune  # noqa: E402
from ingot.types import Compiled, CompiledModule  # noqa: E402

__all__ = ["Cancelled", "Compiled", "CompiledModule", "Config", "Contest", "Corrupt", "Error", "Exhausted", "Gears", "HalfDone", "Incompatible", "Internal", "Invalid",
           "NotFound", "Profile", "QuantizedLinear", "Roofs", "Timeout", "Unavailable", "Unsupported", "accelerate", "adopt_", "build_kernel", "cache_compile", "compile",
           "load", "mark_pure", "mark_static", "profile", "quantize_", "register_kernel", "register_pattern", "roofs", "set_dim_gears", "stats", "tune",
           "unregister_pattern"]
