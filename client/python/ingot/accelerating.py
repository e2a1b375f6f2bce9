# SPDX-License-Identifier: Apache-2.0
"""Models of other libraries, compiled where they compute and left alone everywhere else."""

import typing

import torch

from ingot import api, errors
from ingot.trace import kinds

_Model = typing.TypeVar("_Model")


def accelerate(model: _Model, **options: typing.Any) -> _Model:
    """Compiles what a model computes with, in place, and gives the model back.

    A module gets a compiled ``forward``: whatever calls it (``generate``, a pipeline, hooks) is served, and the module is
    otherwise what it was: its class, its parameters, ``save_pretrained``. The encoder of an encoder-decoder, which ``generate``
    calls by itself, gets one too. A pipeline or an embedder gets it for the module that it holds. Calling it twice changes
    nothing. ``options`` are those of ``ingot.compile``. Invalid names what holds no module.
    """
    for module in _modules_of(model):
        if "forward" not in vars(module):
            module.forward = api.compile(module.forward, **options)
    return model


def _modules_of(model: typing.Any) -> "typing.Iterator[torch.nn.Module]":
    if not kinds.is_a(model, torch.nn.Module):
        held = getattr(model, "model", None)  # A pipeline's.
        if not kinds.is_a(held, torch.nn.Module):
            raise errors.Invalid(f"ingot.accelerate takes a module, or a pipeline that holds one; found a {type(model).__name__}")
        yield from _modules_of(held)
        return
    inner: typing.Any = getattr(next(iter(model.children()), None), "auto_model", None)  # A sentence embedder's.
    if kinds.is_a(inner, torch.nn.Module):
        yield inner
        return
    yield model
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False) and hasattr(model, "get_encoder"):
        yield model.get_encoder()
