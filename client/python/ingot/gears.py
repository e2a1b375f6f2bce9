# SPDX-License-Identifier: Apache-2.0
"""Declared sizes: which sizes a dimension of an input takes (*gears*), and which never change."""

import itertools
import typing

import torch

from ingot import errors

if typing.TYPE_CHECKING:
    from ingot.config import Config

GEARS_MAX = 100
_GEARS, _STATIC, _PAD = "_ingot_gears", "_ingot_static", "_ingot_pad"

DimGears = dict[int, tuple[int, ...]]
Sizes = tuple[tuple[int, ...], ...]
"""The sizes of every tensor of a call, in order."""


class GearError(errors.Invalid, AssertionError):
    """A declaration of gears that cannot work; an ``AssertionError`` too, as torchair raises."""


def set_dim_gears(t: torch.Tensor, dim_gears: "typing.Mapping[int, typing.Sequence[int]]", *,
                  pad: "float | None" = None) -> None:
    """Declares the sizes that dimensions of an input will take: ``set_dim_gears(x, {0: [1, 8, 32]})``.

    Call it on the input of a first call; later inputs need no declaration. Dims may be negative; each has 2 to 100
    sizes, all positive. All other dims of the call's tensors are then fixed. ``pad``: these dims may be filled up with
    this value to reach a gear (``Config.on_miss="pad"``). Nothing is set when anything is wrong:
    :class:`ingot.Invalid` (also an ``AssertionError``) says what.
    """
    checked = {_dim_of(t, dim): _gears_of(dim, sizes) for dim, sizes in dict(dim_gears).items()}
    if not checked:
        raise GearError("At least one dimension should have levels.")
    if len(checked) < len(dim_gears):
        raise GearError(f"Dim index in dim_gears names one dimension twice: {list(dim_gears)} of a {t.dim()}-D tensor.")
    if getattr(t, _GEARS, checked) != checked:
        raise GearError(f"Tensor {_name(t)} already has set dim gears, and it is not supported to set it again.")
    setattr(t, _GEARS, checked)
    setattr(t, _PAD, pad)


def mark_static(t: torch.Tensor, dim: "int | typing.Sequence[int] | None" = None) -> None:
    """Declares that dimensions of an input keep their size (all of them by default): code is made for exactly that size,
    and another size gets code of its own. Gears of the same dim win. Raises :class:`ingot.Invalid` for a bad dim."""
    dims = range(t.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    checked = frozenset(_dim_of(t, d) for d in dims)
    setattr(t, _STATIC, getattr(t, _STATIC, frozenset()) | checked)


def _name(t: torch.Tensor) -> str:
    return f"{t.dtype} {list(t.shape)}".removeprefix("torch.")


def _dim_of(t: torch.Tensor, dim: typing.Any) -> int:
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise GearError(f"Dim index in dim_gears must be an integer, but got {type(dim)}.")
    if not -t.dim() <= dim < t.dim():
        raise GearError(f"Dim index in dim_gears must be in range [0, {t.dim() - 1}], but got {dim}.")
    return dim % t.dim()


def _gears_of(dim: int, sizes: typing.Any) -> "tuple[int, ...]":
    if not isinstance(sizes, (list, tuple)):
        raise GearError(f"Gears for dim index {dim} in dim_gears must be a list or tuple, but got {type(sizes)}.")
    for i, size in enumerate(sizes):
        if not isinstance(size, int) or isinstance(size, bool):
            raise GearError(f"Element at index {i} of value for dim index {dim} in dim_gears must be an integer, but got {type(size)}.")
        if size == 0:
            raise GearError(f"Gear value at index {i} for dim index {dim} must not be 0, but got 0.")
        if size < 0:
            raise GearError(f"Gear value at index {i} for dim index {dim} must be positive, but got {size}.")
    if not 2 <= len(sizes) <= GEARS_MAX:
        raise GearError(f"Length of gears for dim index {dim} in dim_gears must be in range [2, {GEARS_MAX}], but got {len(sizes)}.")
    return tuple(sizes)


class Declared(typing.NamedTuple):
    """What a first call declared of its tensors."""

    dims: "tuple[tuple[int, int, tuple[int, ...]], ...]"
    """(tensor, dim, sizes) of each geared dim, in order."""
    static: "tuple[tuple[int, int], ...]"
    """(tensor, dim) of each dim that keeps its size."""
    gears: "frozenset[tuple[int, ...]]"
    """Every combination of sizes of the geared dims."""
    merge: str
    pads: "tuple[float | None, ...]"
    """What each geared dim may be filled up with."""

    def fixed(self, sizes: Sizes) -> "tuple[int, ...]":
        """The sizes that do not change."""
        return tuple(sizes[tensor][dim] for tensor, dim in self.static)

    def gear(self, sizes: Sizes) -> "tuple[int, ...]":
        """The sizes of the geared dims."""
        return tuple(sizes[tensor][dim] for tensor, dim, _ in self.dims)

    def nearest(self, sizes: Sizes, count: int = 3) -> "list[tuple[int, ...]]":
        """The gears that differ least from a call's sizes."""
        wanted = self.gear(sizes)
        return sorted(self.gears, key=lambda gear: (sum(abs(a - b) for a, b in zip(gear, wanted)), gear))[:count]

    def above(self, sizes: Sizes) -> "tuple[int, ...] | None":
        """The gear with the least waste among those that hold a call's sizes."""
        wanted = self.gear(sizes)
        fitting = [gear for gear in self.gears if all(a >= b for a, b in zip(gear, wanted))]
        return min(fitting, key=lambda gear: (sum(gear), gear), default=None)

    def with_gear(self, sizes: Sizes, gear: "tuple[int, ...]") -> Sizes:
        """The sizes of a call in another gear."""
        changed = [list(one) for one in sizes]
        for (tensor, dim, _), size in zip(self.dims, gear):
            changed[tensor][dim] = size
        return tuple(tuple(one) for one in changed)

    def symbol_values(self, sizes: Sizes, places: "typing.Sequence[tuple[int, int]]") -> "list[int]":
        """The values that symbols take in each gear, one gear after the other: ``places`` are (tensor, dim) of each symbol, ``sizes``
        those of a call, whose tensors come first."""
        return [value for gear in self.symbols(sizes, places) for value in gear]

    def symbols(self, sizes: Sizes, places: "typing.Sequence[tuple[int, int]]") -> "list[tuple[int, ...]]":
        """As ``symbol_values``, one tuple for each gear."""
        changed = (self.with_gear(sizes, gear) for gear in sorted(self.gears))
        return [tuple(one[tensor][dim] for tensor, dim in places) for one in changed]


def text(declared: Declared) -> str:
    """``tensor 0 dim 1 of (8, 16)``"""
    dims = [f"tensor {tensor} dim {dim} of {sizes}" for tensor, dim, sizes in declared.dims]
    return ", ".join(dims) or f"{len(declared.static)} fixed dims"


def is_dynamic(config: "Config", declared: "Declared | None") -> bool:
    """Whether sizes may share a template: gears say so, fixed sizes leave nothing to share."""
    return config.dynamic is not False or declared is not None and bool(declared.gears)


def declared(tensors: "typing.Sequence[torch.Tensor]", merge: str) -> "Declared | None":
    """What the tensors of a call say; None when they say nothing. GearError when they contradict each other."""
    geared = [(number, dim, sizes) for number, t in enumerate(tensors) for dim, sizes in sorted(getattr(t, _GEARS, {}).items())]
    places = {(number, dim) for number, dim, _ in geared}
    if geared:
        # Gears name every size that changes.
        static = [(number, dim) for number, t in enumerate(tensors) for dim in range(t.dim())]
    else:
        static = [(number, dim) for number, t in enumerate(tensors) for dim in sorted(getattr(t, _STATIC, ()))]
    static = [place for place in static if place not in places]
    if not geared and not static:
        return None
    for number, dim, sizes in geared:
        size = tensors[number].shape[dim]
        if size not in sizes:
            raise GearError(f"The index {size} of the current tensor shape is not within the range {list(sizes)}")
    pads = tuple(getattr(tensors[number], _PAD) for number, _, _ in geared)
    return Declared(tuple(geared), tuple(static), _merged([sizes for _, _, sizes in geared], merge), merge, pads)


def _merged(lists: "list[tuple[int, ...]]", merge: str) -> "frozenset[tuple[int, ...]]":
    if not lists:
        return frozenset()
    if merge == "zip":
        if len({len(sizes) for sizes in lists}) > 1:
            raise GearError("when dynamic_gears_merge_policy is zip, input gears len must same. "
                            f"Found lengths {[len(sizes) for sizes in lists]}; use gears merge='product' for every combination.")
        found = frozenset(zip(*lists))
    else:
        count = 1
        for sizes in lists:
            count *= len(set(sizes))
        # Counted first: ten lists of a hundred are not worth spelling out.
        if count > GEARS_MAX:
            raise GearError(f"The total number of gears set cannot exceed {GEARS_MAX}, and the current number of gears is: {count}")
        found = frozenset(itertools.product(*lists))
    if len(found) > GEARS_MAX:
        raise GearError(f"The total number of gears set cannot exceed {GEARS_MAX}, and the current number of gears is: {len(found)}")
    return found


def resized(tensor: torch.Tensor, sizes: "tuple[int, ...]") -> torch.Tensor:
    """A tensor of other sizes with the values of this one: cut off, or repeated from the start."""
    found = tensor
    for dim, size in enumerate(sizes):
        if found.shape[dim] != size:
            if found.shape[dim] == 0:
                raise GearError(f"an example of size 0 at dim {dim} cannot show size {size}: give an input of every gear")
            found = found.index_select(dim, torch.arange(size) % found.shape[dim])
    return found if found is not tensor else tensor.clone()


def replaced(args: typing.Any, old: "typing.Sequence[torch.Tensor]", new: "typing.Sequence[torch.Tensor]") -> typing.Any:
    """The arguments with some tensors replaced; Unsupported where they lie in a structure that cannot be rebuilt."""
    from torch.utils import _pytree

    places = {id(tensor): number for number, tensor in enumerate(old)}
    used: "set[int]" = set()

    def replace(leaf: typing.Any) -> typing.Any:
        number = places.get(id(leaf))
        if number is None:
            return leaf
        used.add(number)
        return new[number]

    made = _pytree.tree_map(replace, args)
    if len(used) < len(places):
        raise errors.Unsupported("tensors inside objects cannot be given other sizes: call the function with inputs of every gear instead")
    return made
