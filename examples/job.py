# SPDX-License-Identifier: Apache-2.0
"""One process of the demo: job.py search|generate eager|ingot; prints one JSON line."""

import json
import os
import sys
import time

STARTED = time.perf_counter()
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch  # noqa: E402

import ingot  # noqa: E402


def timed(fn):
    began = time.perf_counter()
    value = fn()
    return value, time.perf_counter() - began


def search(way: str) -> dict:
    import semantic_search

    model = semantic_search.Embedder()
    batches = semantic_search.batches(model)
    ready = time.perf_counter()
    run = model if way == "eager" else ingot.compile(model)
    _, first = timed(lambda: run(**batches[0]))
    native = timed(run.wait)[1] if way != "eager" else 0.0
    embeddings = [run(**batch) for batch in batches]
    if way != "eager":
        run.wait()
        embeddings = [run(**batch) for batch in batches]
    times = sorted(timed(lambda: run(**batches[1]))[1] for _ in range(20))
    return {"ready": ready, "first_s": first, "native_s": native, "call_s": times[10], "answer": semantic_search.answer(embeddings),
            "why": run.why_miss() if way != "eager" else ""}


def generate(way: str) -> dict:
    import generation

    model = generation.Generator(compiled=way != "eager")
    ids = generation.prompt()
    ready = time.perf_counter()
    # The first round meets every program once; the second is what a server does all day.
    cache = model.new_cache()
    token, first = timed(lambda: model.run_prefill(ids, cache))
    _, first_decode = timed(lambda: model.run_decode(token, cache))
    began = time.perf_counter()
    if way != "eager":
        model.run_prefill.wait()
        model.run_decode.wait()
    native = time.perf_counter() - began
    cache, tokens, times = model.new_cache(), [], []
    token = model.run_prefill(ids, cache)
    for _ in range(generation.NEW_TOKENS):
        tokens.append(token.item())
        token, seconds = timed(lambda: model.run_decode(token, cache))  # noqa: B023  called at once
        times.append(seconds)
    return {"ready": ready, "first_s": first + first_decode, "native_s": native, "call_s": sorted(times)[len(times) // 2], "answer": tokens,
            "why": model.run_decode.why_miss() if way != "eager" else ""}


def main() -> None:
    job, way = sys.argv[1:3]
    with torch.no_grad():
        out = {"search": search, "generate": generate}[job](way)
    out["ready_s"] = out.pop("ready") - STARTED
    out["stats"] = ingot.stats()
    print(json.dumps(out))


if __name__ == "__main__":
    main()
