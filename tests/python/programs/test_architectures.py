# SPDX-License-Identifier: Apache-2.0
"""Architectures of transformers in tiny configurations, without weights from anywhere, against eager at two sizes."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import pytest
import torch
from torch.utils import _pytree as pytree

TEXT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 100, "max_position_embeddings": 64}
GROUPED = {**TEXT, "num_key_value_heads": 2}
SMALL = {**TEXT, "embedding_size": 16}
PICTURE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32, "patch_size": 8}
PAIR = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64, "vocab_size": 100, "max_position_embeddings": 64}


def text(batch, size):
    mask = torch.ones(batch, size, dtype=torch.long)
    mask[0, size // 2:] = 0
    return {"input_ids": torch.randint(5, 99, (batch, size)), "attention_mask": mask}


def words(batch, size):
    return {"input_ids": torch.randint(5, 99, (batch, size))}


def two_texts(batch, size):
    return {"input_ids": torch.randint(5, 99, (batch, size)), "decoder_input_ids": torch.randint(5, 99, (batch, size // 2)), "use_cache": False}


def picture(batch, size):
    return {"pixel_values": torch.randn(batch, 3, 32, 32)}


def sound(batch, size):
    return {"input_values": torch.randn(batch, size * 40)}


def spectrum(batch, size):
    return {"input_features": torch.randn(batch, 8, 40), "decoder_input_ids": torch.randint(3, 99, (batch, size))}


CASES = {
    "albert": (SMALL, text),
    "electra": (SMALL, text),
    "roberta": (TEXT, text),
    "mpnet": (TEXT, text),
    "distilbert": ({"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 100, "max_position_embeddings": 64}, text),
    "deberta-v2": ({**TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8}, text),
    "modernbert": ({**TEXT, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2, "local_attention": 8}, text),
    "convbert": (SMALL, text),
    "roformer": (TEXT, text),
    "fnet": (TEXT, words),
    "esm": ({**TEXT, "mask_token_id": 3, "pad_token_id": 1}, text),
    "mistral": (GROUPED, text),
    "qwen2": (GROUPED, text),
    "qwen3": ({**GROUPED, "head_dim": 8}, text),
    "gemma": ({**GROUPED, "head_dim": 8}, text),
    "gemma2": ({**GROUPED, "head_dim": 8}, text),
    "phi": (TEXT, text),
    "phi3": ({**GROUPED, "pad_token_id": 0}, text),
    "falcon": (TEXT, text),
    "gpt_neox": (TEXT, text),
    "gptj": ({"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "vocab_size": 100, "n_positions": 64}, text),
    "opt": ({**TEXT, "ffn_dim": 64, "word_embed_proj_dim": 32}, text),
    "bloom": ({"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100}, text),
    "stablelm": (GROUPED, text),
    "starcoder2": (GROUPED, text),
    "olmo2": (GROUPED, text),
    "cohere": (GROUPED, text),
    "granite": (GROUPED, text),
    "mixtral": ({**GROUPED, "num_local_experts": 4}, text),
    "mamba": ({"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4, "vocab_size": 100}, words),
    "biogpt": (TEXT, text),
    "bart": (PAIR, two_texts),
    "t5": ({"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 100}, two_texts),
    "deit": (PICTURE, picture),
    "beit": (PICTURE, picture),
    "dinov2": (PICTURE, picture),
    "clip_vision_model": (PICTURE, picture),
    "siglip_vision_model": (PICTURE, picture),
    "swin": ({"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2, "image_size": 32, "patch_size": 4}, picture),
    "convnext": ({"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}, picture),
    "segformer": ({"num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [8, 16], "patch_sizes": [3, 3], "strides": [2, 2],
                   "num_attention_heads": [1, 2], "mlp_ratios": [2, 2]}, picture),
    "wav2vec2": ({**TEXT, "conv_dim": [8, 8], "conv_stride": [5, 2], "conv_kernel": [10, 3], "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4,
                  "num_conv_pos_embedding_groups": 2, "do_stable_layer_norm": False}, sound),
    "whisper": ({**PAIR, "num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 30, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                 "decoder_start_token_id": 1}, spectrum),
}
# What recording refuses, and why; each still has to give eager's answer.
EAGER: "dict[str, str]" = {}
REFUSED_ONCE = {"mamba"}   # Its first call looks for faster kernels on disk, once in a process.


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_equals_eager_at_two_sizes(ingot, name):
    from transformers import AutoConfig, AutoModel
    from transformers.utils import import_utils

    torch.manual_seed(0)
    facts, inputs = CASES[name]
    model = AutoModel.from_config(AutoConfig.for_model(name, **facts)).eval()
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    if name in REFUSED_ONCE:  # Another test of this process may have had it look.
        import_utils.is_mambapy_available.cache_clear()
    step = ingot.compile(model, wait=True)
    sizes = ((2, 8), (3, 12))
    with torch.no_grad():
        for batch, size in (*sizes, *sizes, *sizes):
            args = inputs(batch, size)
            got, want = step(**args, return_dict=False), model(**args, return_dict=False)
            leaves, spec = pytree.tree_flatten(got)
            wanted, wanted_spec = pytree.tree_flatten(want)
            assert spec == wanted_spec
            for a, b in zip(leaves, wanted):
                torch.testing.assert_close(a, b, rtol=2e-4, atol=2e-5)
        before = ingot.stats()["native_calls"]
        for batch, size in sizes:
            step(**inputs(batch, size), return_dict=False)
    counts = ingot.stats()
    assert (counts["native_calls"] - before == 2) != (name in EAGER), step.report()
    refused = [f"refused_{EAGER[n]}" for n in EAGER if n == name] or ["refused_call"] * (name in REFUSED_ONCE)
    assert [n for n in counts if n.startswith("refused_") and n != "refused_retired"] == refused, step.report()
