# SPDX-License-Identifier: Apache-2.0
"""Decoding token by token over a static cache: decode.py DTYPE BATCH WAY; prints one JSON line.

WAY: eager, ingot, inductor, int8 and int4 (ingot on such weights), llama.cpp (where llama_cpp and gguf are installed; BATCH 1; DTYPE f32, bf16,
q8_0, q4_0).
A Llama of 8 layers, hidden 1024, 16 heads, 4 of keys, vocabulary 32000, random weights. Weights are read once a token.
"""

import json
import os
import sys
import tempfile
import time

HIDDEN, LAYERS, INNER, HEADS, KEY_HEADS, WORDS = 1024, 8, 2816, 16, 4, 32000
PROMPT, CACHE, TOKENS = 128, 512, 150


def median(times: "list[float]") -> float:
    # The first third is for whoever compiles meanwhile.
    return sorted(times[len(times) // 3:])[len(times) // 3]


def ours(dtype: str, batch: int, way: str) -> "dict[str, float]":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

    import ingot

    torch.manual_seed(0)
    config = LlamaConfig(hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                         num_key_value_heads=KEY_HEADS, vocab_size=WORDS, max_position_embeddings=2048)
    model = LlamaForCausalLM(config).eval().to(getattr(torch, dtype))
    if way in ("int8", "int4"):
        ingot.quantize_(model, way)
    words = model.model.embed_tokens.weight
    weights = sum(t.numel() * t.element_size() for t in (*model.parameters(), *model.buffers())) - words.numel() * words.element_size()
    step = {"eager": lambda: model, "inductor": lambda: torch.compile(model)}.get(way, lambda: ingot.compile(model))()
    times = []
    with torch.no_grad():
        cache = StaticCache(config=config, max_cache_len=CACHE)
        model(input_ids=torch.randint(0, WORDS, (batch, PROMPT)), past_key_values=cache, cache_position=torch.arange(PROMPT), use_cache=True)
        token = torch.zeros(batch, 1, dtype=torch.long)
        for i in range(TOKENS):
            at = torch.tensor([PROMPT + i])
            began = time.perf_counter()
            step(input_ids=token, past_key_values=cache, cache_position=at, use_cache=True)
            times.append(time.perf_counter() - began)
            if i == 1 and step is not model and way != "inductor":
                step.wait()
    return {"token_s": median(times), "first_s": times[0], "weights": weights}


def llama_cpp(kind: str) -> "dict[str, float]":
    import gguf
    import numpy as np
    from llama_cpp import Llama

    types = {"f32": gguf.GGMLQuantizationType.F32, "bf16": gguf.GGMLQuantizationType.BF16, "q8_0": gguf.GGMLQuantizationType.Q8_0,
             "q4_0": gguf.GGMLQuantizationType.Q4_0}
    bytes_of = {"f32": 4, "bf16": 2, "q8_0": 34 / 32, "q4_0": 18 / 32}[kind]
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        file = gguf.GGUFWriter(path, "llama")
        for add, value in ((file.add_context_length, 2048), (file.add_embedding_length, HIDDEN), (file.add_block_count, LAYERS),
                           (file.add_feed_forward_length, INNER), (file.add_head_count, HEADS), (file.add_head_count_kv, KEY_HEADS),
                           (file.add_layer_norm_rms_eps, 1e-6), (file.add_rope_dimension_count, HIDDEN // HEADS), (file.add_vocab_size, WORDS),
                           (file.add_tokenizer_model, "no_vocab")):
            add(value)

        def tensor(name: str, *sizes: int) -> None:
            values = random.standard_normal(sizes, dtype=np.float32) * 0.02 if len(sizes) > 1 else np.ones(sizes, np.float32)
            if len(sizes) > 1 and kind != "f32":
                file.add_tensor(name, gguf.quants.quantize(values, types[kind]), raw_dtype=types[kind])
            else:
                file.add_tensor(name, values)

        keys = KEY_HEADS * HIDDEN // HEADS
        tensor("token_embd.weight", WORDS, HIDDEN), tensor("output_norm.weight", HIDDEN), tensor("output.weight", WORDS, HIDDEN)
        for i in range(LAYERS):
            for name, sizes in (("attn_norm", (HIDDEN,)), ("ffn_norm", (HIDDEN,)), ("attn_q", (HIDDEN, HIDDEN)), ("attn_k", (keys, HIDDEN)),
                                ("attn_v", (keys, HIDDEN)), ("attn_output", (HIDDEN, HIDDEN)), ("ffn_gate", (INNER, HIDDEN)),
                                ("ffn_up", (INNER, HIDDEN)), ("ffn_down", (HIDDEN, INNER))):
                tensor(f"blk.{i}.{name}.weight", *sizes)
        file.write_header_to_file(), file.write_kv_data_to_file(), file.write_tensors_to_file(), file.close()
        threads = len(os.sched_getaffinity(0))
        model = Llama(path, n_ctx=CACHE, n_threads=threads, n_threads_batch=threads, verbose=False)
        began = time.perf_counter()
        model.eval([int(x) for x in random.integers(0, WORDS, PROMPT)])
        first, times = time.perf_counter() - began, []
        for _ in range(TOKENS):
            began = time.perf_counter()
            model.eval([5])
            times.append(time.perf_counter() - began)
    parameters = LAYERS * (2 * HIDDEN * HIDDEN + 2 * keys * HIDDEN + 3 * INNER * HIDDEN) + WORDS * HIDDEN
    return {"token_s": median(times), "first_s": first, "weights": parameters * bytes_of}


if __name__ == "__main__":
    dtype, batch, way = sys.argv[1:]
    print(json.dumps(llama_cpp(dtype) if way == "llama.cpp" else ours(dtype, int(batch), way)))
