# SPDX-License-Identifier: Apache-2.0
"""ONNX decoders as they are exported for inference: GroupQueryAttention with its caches, all sizes open."""

import math

import pytest
import torch
from onnx_writer import Model
from test_onnx import assert_close, compiled, refusal
from test_onnx_operators import rotated

import ingot

MICROSOFT = "com.microsoft"
HEADS, KEYS, WIDTH, MOST = 4, 2, 8, 40


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def grouped(q, k, v, past_k, past_v, last, total, cos=None, sin=None, interleaved=0, window=-1, cap=0.0, sink=None, scale=None, bias=None):
    """The operator as it is described, a row of the batch and a token at a time; None where a result may be anything."""
    batch, tokens = q.shape[:2]
    room = max(total, 0 if past_k is None else past_k.shape[2])
    keys, values = torch.zeros(batch, KEYS, room, WIDTH), torch.zeros(batch, KEYS, room, WIDTH)
    out = torch.zeros(batch, tokens, HEADS * WIDTH)
    if past_k is not None:
        keys[:, :, :past_k.shape[2]], values[:, :, :past_v.shape[2]] = past_k, past_v
    for b in range(batch):
        length = int(last[b]) + 1
        first = max(length - tokens, 0)
        for s in range(min(tokens, length)):
            at = first + s
            turn = (lambda x: x) if cos is None else lambda x: rotated(x, cos[at], sin[at], interleaved)
            keys[b, :, at] = turn(k[b, s].view(KEYS, WIDTH))
            values[b, :, at] = v[b, s].view(KEYS, WIDTH)
        for s in range(min(tokens, length)):
            at = first + s
            turn = (lambda x: x) if cos is None else lambda x: rotated(x, cos[at], sin[at], interleaved)
            query = turn(q[b, s].view(HEADS, WIDTH))
            begin = max(0, at + 1 - window) if window > 0 else 0
            for h in range(HEADS):
                seen = keys[b, h * KEYS // HEADS, begin:at + 1]
                scores = seen @ query[h] * (scale or 1 / math.sqrt(WIDTH))
                scores = cap * torch.tanh(scores / cap) if cap else scores
                scores = scores + bias[0, h, s, begin:at + 1] if bias is not None else scores
                weights = torch.cat([scores, sink[h:h + 1]]).softmax(0)[:-1] if sink is not None else scores.softmax(0)
                out[b, s, h * WIDTH:(h + 1) * WIDTH] = weights @ values[b, h * KEYS // HEADS, begin:at + 1]
    return out, keys, values


def node_of(model, packed=False, cached=True, tables=None, bias=False, sink=None, **attributes):
    """A model that is this one node, with its sizes open: tokens, cached ones, and all of them."""
    model.input("q", "batch", "tokens", (HEADS + 2 * KEYS if packed else HEADS) * WIDTH)
    inputs = ["q", "", ""]
    if not packed:
        inputs[1:] = [model.input(name, "batch", "tokens", KEYS * WIDTH) for name in ("k", "v")]
    inputs += [model.input(name, "batch", KEYS, "past", WIDTH) for name in ("past_k", "past_v")] if cached else ["", ""]
    model.input("last", "batch", dtype=torch.int32)
    model.input("mask", "batch", "total", dtype=torch.int64)
    total = model.node("Gather", model.node("Shape", "mask"), model.constant("one", torch.tensor(1)))
    inputs += ["last", model.node("Cast", total, to=6)]
    inputs += [model.constant(n, t) for n, t in zip(("cos", "sin"), tables)] if tables else ["", ""]
    inputs += ["", model.input("bias", 1, HEADS, "tokens", "total") if bias else "", model.constant("sink", sink) if sink is not None else ""]
    while not inputs[-1]:
        inputs.pop()
    model.output(*model.node("GroupQueryAttention", *inputs, outputs=3, domain=MICROSOFT, num_heads=HEADS, kv_num_heads=KEYS, **attributes))
    return model


def check(loaded, tokens, past, total, last, packed=False, cached=True, tables=None, bias=False, **options):
    batch = len(last)
    q, k, v = (torch.randn(batch, tokens, heads * WIDTH) for heads in (HEADS, KEYS, KEYS))
    cache = [torch.randn(batch, KEYS, past, WIDTH) for _ in range(2)] if cached else []
    added = [torch.randn(1, HEADS, tokens, total)] if bias else []
    last = torch.tensor(last, dtype=torch.int32)
    rows = [torch.cat([q, k, v], -1)] if packed else [q, k, v]
    got = loaded(*rows, *cache, last, torch.ones(batch, total, dtype=torch.int64), *added)
    want = grouped(q, k, v, *(cache or (None, None)), last, total, *(tables or (None, None)), bias=added[0] if bias else None, **options)
    for i, (found, expected) in enumerate(zip(got.values(), want)):
        assert found.shape == expected.shape
        for b, length in enumerate((last + 1).tolist()):
            valid = slice(0, min(tokens, length)) if i == 0 else slice(0, length)
            row = (b, valid) if i == 0 else (b, slice(None), valid)
            assert_close(found[row], expected[row])


STEPS = ((1, 6, 7, [6]), (3, 6, 9, [8]), (1, 6, 7, [6, 3, 1]), (1, 12, 7, [6, 4]), (5, 30, 9, [8, 5]), (1, 1, 2, [1]), (7, 2, 9, [8]))


@pytest.mark.parametrize("options", ({}, {"interleaved": 1}, {"window": 3}, {"cap": 2.0}, {"sink": True}, {"sink": True, "cap": 1.5, "window": 4}, {"scale": 0.4},
                                     {"bias": True}, {"packed": True}), ids=str)
def test_steps_of_all_sizes(tmp_path, options):
    rotates = "bias" not in options
    tables = (torch.randn(MOST, WIDTH // 2), torch.randn(MOST, WIDTH // 2)) if rotates else None
    options = {**options, **({"sink": torch.randn(HEADS)} if options.get("sink") else {})}
    names = {"interleaved": "rotary_interleaved", "window": "local_window_size", "cap": "softcap", "scale": "scale"}
    model = node_of(Model(), packed=options.get("packed", False), tables=tables, bias=options.get("bias", False), sink=options.get("sink"), do_rotary=int(rotates),
                    **{names[n]: value for n, value in options.items() if n in names})
    said, loaded = compiled(model, tmp_path)
    assert {s["name"] for s in said["symbols"]} == {"batch", "tokens", "past", "total"}
    for tokens, past, total, last in STEPS:
        check(loaded, tokens, past, total, last, tables=tables, **options)


def test_prompts(tmp_path):
    tables = torch.randn(MOST, WIDTH // 2), torch.randn(MOST, WIDTH // 2)
    _, loaded = compiled(node_of(Model(), cached=False, tables=tables, do_rotary=1), tmp_path)
    for tokens, last in ((5, [4]), (6, [5, 2, 3]), (1, [0]), (17, [16, 0])):
        check(loaded, tokens, 0, tokens, last, cached=False, tables=tables)


def test_an_empty_cache_is_asked_for(tmp_path):
    _, loaded = compiled(node_of(Model()), tmp_path, "--dynamic", "past=0..99")
    for tokens, past, total, last in (*STEPS, (5, 0, 5, [4, 2]), (2, 0, 2, [1])):
        check(loaded, tokens, past, total, last)


@pytest.mark.parametrize("attribute, words", (({"sliding_window_cache": 1}, "caches that drop"), ({"qk_output": 1}, "scores as a result"),
                                              ({"k_quant_type": "PER_TENSOR"}, "caches of few bits"), ({"num_heads_of_nobody": 1}, "num_heads_of_nobody")))
def test_forms_that_are_refused(tmp_path, attribute, words):
    why = refusal(node_of(Model(), **attribute), tmp_path)
    assert "GroupQueryAttention" in why and words in why


def test_a_total_that_data_decides(tmp_path):
    model = Model()
    for name, width in (("q", HEADS * WIDTH), ("k", KEYS * WIDTH), ("v", KEYS * WIDTH)):
        model.input(name, "batch", "tokens", width)
    for name in ("past_k", "past_v"):
        model.input(name, "batch", KEYS, "past", WIDTH)
    model.input("last", "batch", dtype=torch.int32)
    model.input("total", 1, dtype=torch.int32)
    model.output(*model.node("GroupQueryAttention", "q", "k", "v", "past_k", "past_v", "last", "total", outputs=3, domain=MICROSOFT, num_heads=HEADS, kv_num_heads=KEYS))
    assert "--value" in refusal(model, tmp_path)
    _, loaded = compiled(model, tmp_path, "--value", "total=9")
    q, k, v = (torch.randn(2, 1, heads * WIDTH) for heads in (HEADS, KEYS, KEYS))
    cache, last = [torch.randn(2, KEYS, 20, WIDTH) for _ in range(2)], torch.tensor([8, 3], dtype=torch.int32)
    for found, expected in zip(loaded(q, k, v, *cache, last).values(), grouped(q, k, v, *cache, last, 9)):
        assert_close(found[0, :, :9], expected[0, :, :9])


def decoder(layers=2):
    """Ids, a mask and the caches in, logits and longer caches out, as the tools of onnxruntime write it."""
    model, width, words = Model(), HEADS * WIDTH, 30
    weights = {}

    def weight(name, *sizes):
        weights[name] = torch.randn(*sizes) / math.sqrt(sizes[-1])
        return model.constant(name, weights[name])

    model.input("ids", "batch", "tokens", dtype=torch.int64)
    model.input("mask", "batch", "total", dtype=torch.int64)
    for i in range(layers):
        for half in "kv":
            model.input(f"past_{half}{i}", "batch", KEYS, "past", WIDTH)
    one = model.ints(1)
    last = model.node("Cast", model.node("Sub", model.node("ReduceSum", "mask", one, keepdims=0), one), to=6)
    total = model.node("Cast", model.node("Gather", model.node("Shape", "mask"), model.constant("at", torch.tensor(1))), to=6)
    cos, sin = weight("cos", MOST, WIDTH // 2), weight("sin", MOST, WIDTH // 2)
    y = model.node("Gather", weight("words", words, width), "ids")
    skip, caches = y, []
    y = model.node("SimplifiedLayerNormalization", y, weight("norm", width), epsilon=1e-6, axis=-1)
    for i in range(layers):
        qkv = model.node("MatMul", y, weight(f"qkv{i}", width, (HEADS + 2 * KEYS) * WIDTH))
        y, *cache = model.node("GroupQueryAttention", qkv, "", "", f"past_k{i}", f"past_v{i}", last, total, cos, sin, outputs=3, domain=MICROSOFT,
                               num_heads=HEADS, kv_num_heads=KEYS, do_rotary=1)
        caches += cache
        y = model.node("MatMul", y, weight(f"out{i}", width, width))
        y, _, _, skip = model.node("SkipSimplifiedLayerNormalization", y, skip, weight(f"norm{i}", width), outputs=4, left_out=(1, 2), domain=MICROSOFT, epsilon=1e-6)
        gate, up = (model.node("MatMul", y, weight(f"{n}{i}", width, 2 * width)) for n in ("gate", "up"))
        y = model.node("MatMul", model.node("Mul", model.node("Mul", gate, model.node("Sigmoid", gate)), up), weight(f"down{i}", 2 * width, width))
        y, _, _, skip = model.node("SkipSimplifiedLayerNormalization", y, skip, weight(f"next{i}", width), outputs=4, left_out=(1, 2), domain=MICROSOFT, epsilon=1e-6)
    model.output(model.node("MatMul", y, weight("head", width, words)), *caches)

    def eager(ids, past):
        def norm(x, name):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weights[name]

        before = past[0].shape[2]
        y, skip, caches = norm(weights["words"][ids], "norm"), weights["words"][ids], []
        for i in range(layers):
            q, k, v = (y @ weights[f"qkv{i}"]).split([HEADS * WIDTH, KEYS * WIDTH, KEYS * WIDTH], -1)
            last = torch.full((len(ids),), before + ids.shape[1] - 1)
            y, *cache = grouped(q, k, v, *past[2 * i:2 * i + 2], last, before + ids.shape[1], weights["cos"], weights["sin"])
            caches += cache
            skip = y @ weights[f"out{i}"] + skip
            y = norm(skip, f"norm{i}")
            skip = (torch.nn.functional.silu(y @ weights[f"gate{i}"]) * (y @ weights[f"up{i}"])) @ weights[f"down{i}"] + skip
            y = norm(skip, f"next{i}")
        return [y @ weights["head"], *caches]

    return model, eager


def test_a_decoder_writes_word_by_word(tmp_path):
    model, eager = decoder()
    said, loaded = compiled(model, tmp_path, "--dynamic", "past=0..39")
    assert {s["name"] for s in said["symbols"]} == {"batch", "tokens", "past", "total"}
    for batch, prompt in ((1, 5), (3, 2), (2, 1)):
        ids, past = torch.randint(30, (batch, prompt)), [torch.zeros(batch, KEYS, 0, WIDTH) for _ in range(4)]
        for _ in range(6):
            total = past[0].shape[2] + ids.shape[1]
            got, want = list(loaded(ids, torch.ones(batch, total, dtype=torch.int64), *past).values()), eager(ids, past)
            for found, expected in zip(got, want):
                assert_close(found, expected)
            ids, past = want[0][:, -1:].argmax(-1), got[1:]


def test_tokens_have_a_place_in_their_cache(tmp_path):
    """What lies outside was dropped, and the cache attended without it."""
    for options in ({}, {"do_rotary": 1}):
        tables = (torch.randn(MOST, WIDTH // 2), torch.randn(MOST, WIDTH // 2)) if options else None
        _, loaded = compiled(node_of(Model(), tables=tables, **options), tmp_path)
        for tokens in (1, 2):
            check(loaded, tokens, 8, 4, [7, 3], tables=tables)
            for bad in (8, 100, -1, 2**31 - 1):
                with pytest.raises(ingot.Invalid, match="out of bounds|outside the indexed dimension"):
                    check(loaded, tokens, 8, 4, [3, bad], tables=tables)
