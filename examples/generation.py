# SPDX-License-Identifier: Apache-2.0
"""A Llama-style decoder over a static KV cache, in torchair's pattern: two thin methods, each cache_compiled."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

import ingot

CONFIG = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 2,
          "vocab_size": 16000, "max_position_embeddings": 2048,
          "initializer_range": 0.05}  # Random weights: smaller ones repeat one token, which would hide a wrong cache.
PROMPT_TOKENS, NEW_TOKENS, CACHE_TOKENS = 48, 24, 128


class Generator(torch.nn.Module):
    """Greedy generation; ``compiled=False`` runs the very same methods eagerly."""

    def __init__(self, compiled: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.model = LlamaForCausalLM(LlamaConfig(**CONFIG)).eval()
        self.run_prefill = ingot.cache_compile(self.prefill) if compiled else self.prefill
        self.run_decode = ingot.cache_compile(self.decode) if compiled else self.decode

    def prefill(self, ids: torch.Tensor, cache: StaticCache) -> torch.Tensor:
        return self.model(input_ids=ids, past_key_values=cache, use_cache=True).logits[:, -1].argmax(-1, keepdim=True)

    def decode(self, token: torch.Tensor, cache: StaticCache) -> torch.Tensor:
        return self.model(input_ids=token, past_key_values=cache, use_cache=True).logits[:, -1].argmax(-1, keepdim=True)

    def new_cache(self) -> StaticCache:
        config = self.model.config
        cache = StaticCache(config=config, max_cache_len=CACHE_TOKENS)
        cache.early_initialization(1, config.num_key_value_heads, config.hidden_size // config.num_attention_heads, torch.float32, torch.device("cpu"))
        return cache


def prompt() -> torch.Tensor:
    return torch.randint(0, CONFIG["vocab_size"], (1, PROMPT_TOKENS), generator=torch.Generator().manual_seed(7))
