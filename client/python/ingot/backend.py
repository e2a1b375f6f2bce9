# SPDX-License-Identifier: Apache-2.0
"""``torch.compile(model, backend="ingot")``: Dynamo splits the program, Ingot compiles each piece."""

import typing

import torch

from ingot import compatibility
from ingot.config import Config, resolve


def ingot(module: "torch.fx.GraphModule", example_inputs: "list[torch.Tensor]", options: "typing.Mapping[str, typing.Any] | None" = None, *,
          dynamic: "bool | None" = None, **ignored: typing.Any) -> typing.Callable[..., typing.Any]:
    """A Dynamo backend. ``options`` are fields of :class:`ingot.Config`; one that it does not have raises :class:`ingot.Invalid`.

    What else ``torch.compile`` hands to backends chooses among things that Ingot does not have, and is ignored: ``mode``, whose presets are
    Inductor's, ``name``, and what later versions add. The entry key of a piece holds the code that Dynamo generated for it and what that code
    reads from its module; names that differ from process to process are not part of it.
    """
    del example_inputs, ignored
    said = Config()
    said.lay_over("options of backend='ingot'", options or {})
    config = resolve(said, dynamic=dynamic)
    if compatibility.misfit() is not None:
        return module.forward
    from ingot.trace import compiled_piece, dynamo_piece

    return compiled_piece.CompiledPiece(dynamo_piece.take(module), config)
