# SPDX-License-Identifier: Apache-2.0
"""Process groups of torch.distributed: what they are called here, and what they are everywhere.

A group's name ("0", "1", ...) counts the groups of one process. Its *identity* is text that means the same
group in every process: ``ranks 0,1``, then the description or tag somebody gave it, and from the second group of
these on ``number 2``. Nothing here makes a group.
"""

import sys
import typing

import torch

from ingot import errors


def initialized() -> bool:
    """Whether this process has joined others through torch.distributed."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized()


def _given_name(world: typing.Any, group: typing.Any) -> str:
    """A description or tag that the program chose; names counted by torch say nothing elsewhere."""
    description = getattr(group, "group_desc", "")
    if description and description not in ("undefined", "default_pg"):
        return str(description)
    tag = world.pg_to_tag.get(group, "")
    return tag if tag.startswith("user:") else ""


def is_one(value: typing.Any) -> bool:
    """Whether a value is a process group, or what ``new_group`` gives those who are not in it."""
    distributed = torch.distributed
    return distributed.is_available() and (isinstance(value, distributed.ProcessGroup) or value is distributed.GroupMember.NON_GROUP_MEMBER)


class Parallel(typing.NamedTuple):
    """The group whose ranks share rows."""

    name: str
    identity: str
    ranks: int

    @classmethod
    def of(cls, option: typing.Any) -> "Parallel | None":
        """What ``Config.sequence_parallel`` means in this process, None: nothing; Invalid where it can mean nothing."""
        if option is False:
            return None
        if not initialized():
            raise errors.Invalid("sequence_parallel is asked for, and torch.distributed is not initialized: call init_process_group before ingot.compile")
        group = torch.distributed.group.WORLD if option is True else option
        world = sys.modules["torch.distributed.distributed_c10d"]._world
        name = world.pg_names.get(group, "") if isinstance(group, torch.distributed.ProcessGroup) else ""
        if name not in live():
            raise errors.Invalid("sequence_parallel names a process group that this process is not in, or that is destroyed")
        ranks = torch.distributed.get_world_size(group)
        if ranks > _RANKS_MAX:
            raise errors.Invalid(f"sequence_parallel over {ranks} ranks: at most {_RANKS_MAX} share rows")
        return cls(name, live()[name], ranks) if ranks > 1 else None

    def slot(self, identities: "typing.Sequence[str]") -> "tuple[int, int]":
        """Where it is among the groups of a recording, and how many ranks it has; (0, 0) where it is not."""
        return (identities.index(self.identity), self.ranks) if self.identity in identities else (0, 0)


_RANKS_MAX = 64


def live() -> "dict[str, str]":
    """Identity by name of every group of this process, in the order they were made; empty without torch.distributed."""
    if not initialized():
        return {}
    world = sys.modules["torch.distributed.distributed_c10d"]._world
    found: "dict[str, str]" = {}
    seen: "dict[str, int]" = {}
    for group in world.pg_map:
        ranks = torch.distributed.get_process_group_ranks(group)
        text = " ".join(filter(None, ["ranks", ",".join(map(str, ranks)), _given_name(world, group)]))
        seen[text] = seen.get(text, 0) + 1
        found[world.pg_names[group]] = text if seen[text] == 1 else f"{text} number {seen[text]}"
    return found


def names_of(identities: "typing.Sequence[str]") -> "list[str]":
    """The names these groups have in this process; NotFound says which is missing and which there are."""
    here = live()
    names = {identity: name for name, identity in here.items()}
    for identity in identities:
        if identity not in names:
            existing = ", ".join(f"[{known}]" for known in names) or "none"
            raise errors.NotFound(f"process group [{identity}] does not exist in this process; it has {existing}; "
                                  "make the group before the call, or record again")
    return [names[identity] for identity in identities]


def ranks_of_process(declared: "dict[str, int | None]") -> "list[tuple[str, str]]":
    """Who asks, as (name, value): world size and rank as torch.distributed knows them, and what the user declared."""
    who: "list[tuple[str, str]]" = []
    given = {name: str(value) for name, value in declared.items() if value is not None}
    if initialized():
        rank = str(torch.distributed.get_rank())
        who.append(("world_size", str(torch.distributed.get_world_size())))
        # A declared rank names the entry; the process's own still tells two of them apart.
        if given.setdefault("global_rank", rank) != rank:
            who.append(("process_rank", rank))
    return who + sorted(given.items())
