# SPDX-License-Identifier: Apache-2.0
"""A graph that Dynamo cut out of a program, as a function whose entry key is the same in every process."""

import os
import re
import types
import typing

import torch

from ingot import errors
from ingot.trace import functionalized


class Piece(typing.NamedTuple):
    """A bound method that runs the graph, and which of Dynamo's arguments it takes (None: all of them)."""

    name: str
    kept: "list[int] | None"
    graph_module: torch.fx.GraphModule
    function: typing.Any

    def dump(self) -> bytes:
        """The graph as bytes; those of a graph that torch cannot pickle raise Unsupported."""
        from torch.fx._graph_pickler import GraphPickler, Options

        try:
            return GraphPickler.dumps(self.graph_module, Options(ops_filter=None))
        except Exception as e:  # foreign: pickle's many ways to say no
            raise errors.Unsupported(f"{self.name} cannot be saved: {e!r}") from None


def load(name: str, kept: "list[int] | None", data: bytes) -> Piece:
    """The piece whose graph ``Piece.dump`` wrote. Unpickles: for files that are trusted like code."""
    from torch._subclasses import FakeTensorMode
    from torch.fx._graph_pickler import GraphPickler
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    try:
        module: typing.Any = GraphPickler.loads(data, FakeTensorMode(shape_env=ShapeEnv()))
    except Exception as e:  # foreign: damaged pickles raise anything
        raise errors.Corrupt(f"the graph of {name} cannot be read: {e!r}") from None
    module.recompile()
    return _make(name, kept, module)


def take(module: torch.fx.GraphModule) -> Piece:
    """The piece of a graph module that Dynamo hands to a backend; the module stays as it is."""
    graph = torch.fx.Graph()
    copied: "dict[torch.fx.Node, torch.fx.Node]" = {}
    result = graph.graph_copy(module.graph, copied)
    graph.output(result)
    kept = _derive_sizes(module.graph, copied)
    for node in graph.nodes:
        node.meta.clear()  # Traces and sizes of one process.
        if node.op == "call_function":
            node.target = functionalized.plain(node.target)
    return _make(_name_of(module), kept, torch.fx.GraphModule(module, graph))


def _make(name: str, kept: "list[int] | None", module: torch.fx.GraphModule) -> Piece:
    generated = type(module).forward
    owner, _, last = name.rpartition(".")
    state = _state(owner, module)
    function = types.FunctionType(generated.__code__, generated.__globals__, last)
    return Piece(name, kept, module, types.MethodType(function, state))


def _state(owner: str, module: torch.fx.GraphModule) -> torch.nn.Module:
    """What the generated code can read, and nothing of what Dynamo notes beside it.

    Its class is named after where the piece comes from, because entries are listed by that.
    """
    where, _, kind = owner.rpartition(".")
    state = typing.cast("torch.nn.Module", type(kind, (torch.nn.Module,), {"__module__": where})())
    state.train(module.training)
    for node in module.graph.nodes:
        if node.op in ("get_attr", "call_module"):
            top = node.target.partition(".")[0]
            if not hasattr(state, top):
                _give(state, top, getattr(module, top), top in module._buffers)
    return state


def _give(state: torch.nn.Module, name: str, value: typing.Any, is_buffer: bool) -> None:
    if is_buffer:
        state.register_buffer(name, value)
    else:
        setattr(state, name, value)


def _name_of(module: torch.fx.GraphModule) -> str:
    """``dynamo.<file>.<function>`` of the frame that Dynamo traced; lines and folders are not part of it."""
    stack = getattr(getattr(module, "compile_subgraph_reason", None), "user_stack", None)
    if not stack:
        return "dynamo.graph.forward"
    stem = os.path.splitext(os.path.basename(stack[0].filename))[0]
    # The rest of a frame after a graph break is named by a line: `torch_dynamo_resume_in_forward_at_14`.
    function = re.sub(r"_at_\d+$", "", stack[0].name).replace("torch_dynamo_resume_in", "resume")
    return ".".join(["dynamo", *(re.sub(r"\W", "_", part) for part in (stem, function))])


def _derive_sizes(graph: torch.fx.Graph, copied: "dict[torch.fx.Node, torch.fx.Node]") -> "list[int] | None":
    """Takes arguments that only repeat a tensor's size from the copy, so that one template serves all sizes.

    Returns the positions of the arguments that are left, None when all are.
    """
    places = list(graph.find_nodes(op="placeholder"))
    sizes = _sizes(places)
    kept = []
    for position, node in enumerate(places):
        value = node.meta.get("example_value")
        source = sizes.get(str(value.node.expr)) if isinstance(value, torch.SymInt) else None
        if source is None:
            kept.append(position)
            continue
        twin = copied[node]
        if twin.users:
            body = next(other for other in twin.graph.nodes if other.op != "placeholder")
            with twin.graph.inserting_before(body):
                twin.replace_all_uses_with(twin.graph.call_method("size", (copied[source[0]], source[1])))
        twin.graph.erase_node(twin)
    return None if len(kept) == len(places) else kept


def _sizes(places: "list[torch.fx.Node]") -> "dict[str, tuple[torch.fx.Node, int]]":
    """Symbol -> the first tensor argument and dimension whose size it is."""
    found: "dict[str, tuple[torch.fx.Node, int]]" = {}
    for node in places:
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    found.setdefault(str(size.node.expr), (node, dim))
    return found
