# SPDX-License-Identifier: Apache-2.0
"""What the processes of test_ranks.py share: models split over ranks, and how a process joins the others."""

import datetime
import json
import os

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol


def join(extra_groups: int = 0) -> "tuple[int, int]":
    """Joins the other processes over gloo; (rank, world). Extra groups shift the names of later ones."""
    rank, world = int(os.environ["CASE_RANK"]), int(os.environ["CASE_WORLD"])
    # Ranks that wait for different things are a failure, soon.
    dist.init_process_group("gloo", init_method="file://" + os.environ["CASE_FILE"], rank=rank, world_size=world,
                            timeout=datetime.timedelta(seconds=90))
    for _ in range(extra_groups):
        dist.new_group([0])
    return rank, world


def group_count() -> int:
    return len(dist.distributed_c10d._world.pg_map)


def leave(**result) -> None:
    """Prints the result of this rank and leaves the others."""
    import ingot

    counters = {name: value for name, value in ingot.stats().items() if not name.endswith("_seconds")}
    print(json.dumps({**counters, **result}))
    dist.barrier()
    dist.destroy_process_group()


def inputs(*sizes: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def _part(full: torch.Tensor, dim: int, rank: int, world: int) -> torch.nn.Parameter:
    return torch.nn.Parameter(full.chunk(world, dim)[rank].contiguous())


class MLP(torch.nn.Module):
    """Split by columns, then by rows; the partial products are summed over the ranks."""

    def __init__(self, group, rank: int = 0, world: int = 1) -> None:
        super().__init__()
        up, down = inputs(32, 16, seed=2), inputs(16, 32, seed=3)
        self.up, self.down = _part(up, 0, rank, world), _part(down, 1, rank, world)
        self.group = group

    def forward(self, x):
        h = torch.nn.functional.silu(torch.nn.functional.linear(x, self.up))
        y = torch.nn.functional.linear(h, self.down)
        if self.group is not None:
            y = funcol.all_reduce(y, "sum", self.group)
        return torch.softmax(y, -1) + x


class Attention(torch.nn.Module):
    """Heads split over the ranks; keys are shared by an all-gather, sums scattered and gathered again."""

    def __init__(self, group, rank: int = 0, world: int = 1) -> None:
        super().__init__()
        self.world, self.heads = world, 4 // world
        self.q, self.k, self.v = (_part(inputs(32, 32, seed=s), 0, rank, world) for s in (4, 5, 6))
        self.out = _part(inputs(32, 32, seed=7), 1, rank, world)
        self.norm = torch.nn.LayerNorm(32)
        self.group = group

    def forward(self, x):
        batch, tokens, _ = x.shape
        q, k, v = (torch.nn.functional.linear(x, w).view(batch, tokens, self.heads, 8).transpose(1, 2)
                   for w in (self.q, self.k, self.v))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = torch.nn.functional.linear(y.transpose(1, 2).reshape(batch, tokens, -1), self.out)
        if self.group is not None:
            part = funcol.reduce_scatter_tensor(y, "sum", 1, self.group)
            y = funcol.all_gather_tensor(part, 1, self.group)
        return self.norm(x + y)


def compare(expected, found) -> None:
    """Both are results of one call: the same structure, types and, nearly, values."""
    assert type(expected) is type(found), (type(expected), type(found))
    if isinstance(expected, (tuple, list)):
        assert len(expected) == len(found)
        for one, other in zip(expected, found):
            compare(one, other)
    elif isinstance(expected, torch.Tensor):
        assert torch.allclose(expected, found, atol=1e-5), (expected, found)
    else:
        assert expected == found, (expected, found)


class Layers(torch.nn.Module):
    """Layers of attention and MLP split over the ranks, with norms in front and a residual beside them, of one row for each token."""

    WIDTH, HEADS, HIDDEN = 256, 4, 512

    def __init__(self, group, rank: int = 0, world: int = 1, layers: int = 2) -> None:
        super().__init__()
        self.heads, self.group, self.layers = self.HEADS // world, group, layers
        for i in range(layers):
            for j, name in enumerate("qkv"):
                setattr(self, f"{name}{i}", _part(inputs(self.WIDTH, self.WIDTH, seed=10 * i + j) / 16, 0, rank, world))
            setattr(self, f"out{i}", _part(inputs(self.WIDTH, self.WIDTH, seed=10 * i + 3) / 16, 1, rank, world))
            setattr(self, f"up{i}", _part(inputs(self.HIDDEN, self.WIDTH, seed=10 * i + 4) / 16, 0, rank, world))
            setattr(self, f"down{i}", _part(inputs(self.WIDTH, self.HIDDEN, seed=10 * i + 5) / 16, 1, rank, world))
            setattr(self, f"before{i}", torch.nn.RMSNorm(self.WIDTH, eps=1e-6))
            setattr(self, f"between{i}", torch.nn.LayerNorm(self.WIDTH))

    def total(self, y):
        return y if self.group is None else funcol.all_reduce(y, "sum", self.group)

    def forward(self, x):
        linear = torch.nn.functional.linear
        for i in range(self.layers):
            h = getattr(self, f"before{i}")(x)
            q, k, v = (linear(h, getattr(self, f"{name}{i}")).unflatten(-1, (self.heads, -1)).transpose(1, 2) for name in "qkv")
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.total(linear(y.transpose(1, 2).flatten(2), getattr(self, f"out{i}")))
            h = getattr(self, f"between{i}")(x)
            x = x + self.total(linear(torch.nn.functional.silu(linear(h, getattr(self, f"up{i}"))), getattr(self, f"down{i}")))
        return x


def steps_of(step, *names: str) -> "list[int]":
    """How many steps the plan of a compiled callable's first variant has of each operator."""
    variants = [v for entry in step._engine._entries.values() for v in entry.variants]
    text = variants[0].artifact.plan_text() if variants else ""
    return [text.count(name) for name in names]
