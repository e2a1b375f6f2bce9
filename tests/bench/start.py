# SPDX-License-Identifier: Apache-2.0
"""One process, one way of starting one model: start.py MODEL WAY [DIR]; prints one JSON line.

WAY: eager, ingot, inductor, aoti-save, aoti-load. Times start when the model and its inputs exist.
"""

import json
import os
import sys
import time

NAME, WAY = sys.argv[1:3]
DIR = sys.argv[3] if len(sys.argv) > 3 else None
if DIR:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = DIR
import torch  # noqa: E402
from models import MODELS  # noqa: E402

if WAY == "ingot":
    import ingot
out = {}
model, args = MODELS[NAME]()
with torch.no_grad():
    if WAY in ("inductor", "aoti-save", "aoti-load"):
        model(*args)
    began = time.perf_counter()
    if WAY == "eager":
        model(*args)
    elif WAY == "ingot":
        step = ingot.compile(model)
        result = step(*args)
        out["first_s"] = time.perf_counter() - began
        step.wait()
        out["native_s"] = time.perf_counter() - began
        began_native = time.perf_counter()
        native = step(*args)
        out["second_s"] = time.perf_counter() - began_native
        reference = model(*args)
        out["difference"] = float(max((result - reference).abs().max(), (native - reference).abs().max()))
        out["stats"] = ingot.stats()
        out["variants"] = step.variants
    elif WAY == "inductor":
        torch.compile(model)(*args)
    elif WAY == "aoti-save":
        torch._inductor.aoti_compile_and_package(torch.export.export(model, args), package_path=f"{DIR}/{NAME}.pt2")
    elif WAY == "aoti-load":
        torch._inductor.aoti_load_package(f"{DIR}/{NAME}.pt2")(*args)
    out.setdefault("first_s", time.perf_counter() - began)
print(json.dumps(out))
