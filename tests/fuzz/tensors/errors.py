# SPDX-License-Identifier: Apache-2.0
"""How far a result may be from eager's: seen by running eager and watching its operators.

Native code computes most element types exactly as eager does and must give the same bits then. Where rounding may differ
(sums in another order, functions of the mathematical library, half precision kept in float32 between operators) a result has a unit of
error and the magnitudes it came from. An operator that makes something discrete of such a value (a comparison, an index, a
rounding) has no answer to compare, and neither has one whose slope is steep there: that is Unsteady.
"""

import typing

import torch
from torch.utils._python_dispatch import TorchDispatchMode

LOW = (torch.bfloat16, torch.float16)
ULPS = 24   # units of error allowed, of the largest magnitude on the way

# Operators that move values, or choose among them.
MOVES = set("""abs alias_copy amax amin as_strided_copy bitwise_not cat clamp clamp_max clamp_min clone constant_pad_nd contiguous copy diagonal_copy
embedding expand_copy fill flip full_like gather hardtanh index index_copy index_fill index_put index_select leaky_relu lift_fresh lift_fresh_copy
masked_fill masked_scatter max max_pool2d_with_indices maximum min minimum native_dropout neg permute_copy relu relu6 repeat repeat_interleave
roll scatter select_scatter slice_scatter sort split_copy split_with_sizes_copy stack threshold topk tril triu unbind_copy unfold_copy view_copy where
_unsafe_index _reshape_copy select_copy slice_copy squeeze_copy t_copy transpose_copy unsqueeze_copy zero _unsafe_view argsort""".split())
# Operators that round once, as IEEE 754 says.
ROUNDS = set("add sub rsub mul div square reciprocal _to_copy ceil floor round trunc sign remainder fmod floor_divide frac logical_not".split())
JUMPS = set("ceil floor round trunc sign remainder fmod floor_divide frac heaviside".split())
MODULI = set("remainder fmod floor_divide".split())
QUOTIENT_MAX = 1e6   # beyond it torch's vector loops give other remainders than its scalar ones
CREATES = set("""arange empty empty_like empty_strided eye full full_like linspace new_empty new_empty_strided new_full new_ones new_zeros ones ones_like
scalar_tensor zeros zeros_like""".split())
GROWS = set("mul div mm bmm addmm baddbmm mv dot addcmul addcdiv pow convolution outer square prod cumprod lerp linear".split())
STEEP = set("rsqrt log log2 log10 log1p reciprocal div pow atan2 sqrt addcdiv".split())
CHOOSES = set("""max min amax amin maximum minimum aminmax cummax cummin sort topk
max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d adaptive_max_pool3d""".split())
CLAMPS = set("clamp clamp_max clamp_min".split())   # between tensors, of which eager's vectors take another than its scalar loops
# Operators that add products: of whole numbers they are exact in any order while every partial sum fits the type.
SUMS = set("""sum mm bmm addmm baddbmm mv dot linear convolution cumsum index_add scatter_add index_put addcmul prod
cumprod""".split())
# Composites that multiply where one thing alone is to be added up, and kernels add to zero: of -0.0 either zero is right (docs/numerics.md).
ADDS = ("einsum",)
NORMS = set("""native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit_no_training
var std var_mean std_mean cudnn_batch_norm _fused_rms_norm rms_norm _transformer_encoder_layer_fwd""".split())


class Unsteady(Exception):
    """What an operator makes of inexact values cannot be compared."""


class Error(typing.NamedTuple):
    """Unit and magnitude of a storage's error; a unit of 0 says that it is exact."""

    unit: float = 0.0
    scale: float = 1.0

    def bound(self) -> float:
        return ULPS * self.unit * self.scale


def tensors(tree: typing.Any) -> "list[torch.Tensor]":
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [t for part in tree for t in tensors(part)] if isinstance(tree, (list, tuple)) else []


def has_digits(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def largest(tensor: torch.Tensor) -> float:
    if not tensor.numel():
        return 0.0
    return float(tensor.detach().abs().double().nan_to_num(0, 0, 0).max())


class Errors(TorchDispatchMode):
    """Runs operators as they are and keeps the error of each storage. Raises Unsteady."""

    def __init__(self) -> None:
        super().__init__()
        self._errors: "dict[int, Error]" = {}
        self._alive: "list[typing.Any]" = []   # so that no address is used twice
        self.chooses_zero = False
        """Whether an operator chose the largest or smallest of floats, or added some up: with both zeros among them it is either."""

    def of(self, tensor: torch.Tensor) -> Error:
        return self._errors.get(tensor.untyped_storage()._cdata, Error()) if has_digits(tensor) else Error()

    def __torch_dispatch__(self, func: typing.Any, types: typing.Any, args: typing.Any = (), kwargs: typing.Any = None) -> typing.Any:
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        name = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        operands = tensors([args, kwargs])
        chooses = name in CHOOSES or name in CLAMPS and len(operands) > 1
        self.chooses_zero |= chooses and any(operand.is_floating_point() for operand in operands)
        before = [(operand, self.of(operand)) for operand in operands]
        self._judge(name, before, args, kwargs)
        sizes = {operand.untyped_storage()._cdata for operand in operands}
        out = func(*args, **kwargs)
        results = tensors(out)
        if name == "_local_scalar_dense" and before[0][1].unit:
            raise Unsteady(name)
        if not func.is_view and (func._schema.is_mutable or any(r.untyped_storage()._cdata not in sizes for r in results)):
            written = results or operands[:1]
            for result in written:
                self._note(result, self._after(name, before, result, args, kwargs))
        return out

    def _judge(self, name: str, before: "list[tuple[torch.Tensor, Error]]", args: typing.Any, kwargs: typing.Any) -> None:
        inexact = [t for t, error in before if error.unit]
        jumps = name in JUMPS or name == "div" and kwargs.get("rounding_mode") is not None
        if inexact and jumps or name in MODULI and _has_large_quotients(args):
            raise Unsteady(name)
        # Eager makes NaN of an infinity there, or not, as it lies at the end of a vector or of all (docs/numerics.md).
        if name in ("var_mean", "std_mean", "gelu") and not all(bool(t.isfinite().all()) for t, _ in before):
            raise Unsteady(name)
        if name in STEEP:
            steep = inexact[-1:] if name in ("div", "addcdiv") and inexact and inexact[-1] is before[-1][0] else \
                [] if name in ("div", "addcdiv") else inexact
            for t in steep:
                if t.numel() and float(t.detach().abs().double().min()) < 0.1:
                    raise Unsteady(name)
        if name == "tan" and any(t.numel() and float(t.detach().double().cos().abs().min()) < 0.1 for t in inexact if not t.is_complex()):
            raise Unsteady(name)

    def _after(self, name: str, before: "list[tuple[torch.Tensor, Error]]", result: torch.Tensor, args: typing.Any, kwargs: typing.Any) -> Error:
        unit = max([0.0, *(error.unit for _, error in before)])
        if name in CREATES:
            return Error()
        if not has_digits(result):
            if unit:
                raise Unsteady(name)
            if name == "_to_copy" and before[0][0].is_floating_point() and not bool(before[0][0].isfinite().all()):
                raise Unsteady(name)
            return Error()
        alpha = kwargs.get("alpha", 1) if name in ("add", "sub", "rsub") else 1
        rounds = name in ROUNDS and alpha == 1
        moves = name in MOVES and not (name in ("index_put", "scatter") and _accumulates(args, kwargs))
        eps = torch.finfo(result.dtype).eps
        if name in SUMS and not unit and _is_exact(name, [t for t, _ in before], result, kwargs):
            self.chooses_zero = True
            return Error()
        if result.dtype in LOW:
            unit = max(unit, eps) if not moves or unit else unit
        elif not (rounds or moves):
            unit = max(unit, eps)
        if not unit:
            return Error()
        scale = max([1.0, largest(result), *(error.scale for _, error in before), *(largest(t) for t, _ in before if has_digits(t))])
        if name in GROWS:
            sides = sorted((max(error.scale, largest(t)) for t, error in before), reverse=True)
            scale = max(scale, sides[0] * max([1.0, *sides[1:2]]))
        if name == "pow":
            scale = max(scale, _steepness_of_power(args, result) * max(error.scale for _, error in before))
        if name == "div" and len(before) == 2 and before[0][1].unit:
            # The noise of a dividend, by a divisor that is almost none.
            least = float(before[1][0].detach().abs().double().clamp(min=1e-300).min()) if before[1][0].numel() else 1.0
            scale = max(scale, before[0][1].scale / least if least < 1e-30 else 1.0)
        if name in NORMS:
            scale *= 300
        # Eager multiplies in f16 itself, and what overflows on the way stays infinite (docs/numerics.md).
        if name == "prod" and result.dtype == torch.float16 and not bool(result.isfinite().all()):
            raise Unsteady(name)
        if name in ("std", "std_mean") and result.numel() and float(result.abs().double().nan_to_num(1.0).min()) < 0.05:
            raise Unsteady(name)
        most = max([1, *(t.numel() for t, _ in before)])
        if name in ("sum", "mean", "cumsum", "prod", "mm", "bmm", "addmm", "index_add", "scatter_add", "index_put", "var", "std"):
            scale *= max(1.0, (most / max(result.numel(), 1)) ** 0.5)
        return Error(unit, scale)

    def _note(self, tensor: torch.Tensor, error: Error) -> None:
        storage = tensor.untyped_storage()
        self._alive.append(storage)
        old = self._errors.get(storage._cdata, Error())
        self._errors[storage._cdata] = Error(max(old.unit, error.unit), max(old.scale, error.scale))


def _steepness_of_power(args: typing.Any, result: torch.Tensor) -> float:
    """By how much a power moves with its base or with its exponent."""
    base, exponent = (torch.as_tensor(arg).double() for arg in args[:2])
    power = result.detach().double().abs()
    return max(largest(power * exponent / base), largest(power * base.abs().log()))


def _is_exact(name: str, operands: "list[torch.Tensor]", result: torch.Tensor, kwargs: typing.Any) -> bool:
    """Whether a sum of products gives the same in whatever order."""
    if result.dtype in LOW or not all(t.dtype.is_floating_point or not has_digits(t) for t in operands):
        return False
    if name in ("addmm", "baddbmm", "addcmul") and any(kwargs.get(factor, 1) != 1 for factor in ("alpha", "beta", "value")):
        return False
    largest_sum = 1.0
    for t in operands:
        wide = t.detach().double()
        if not bool((wide == wide.round()).all()):   # NaN is none, and no sum with an infinity is exact enough
            return False
        whole = wide.abs().clamp(min=1)
        largest_sum *= max(1.0, float(whole.prod() if name in ("prod", "cumprod") else whole.sum()))
    return largest_sum < 1 / torch.finfo(result.dtype).eps


def _has_large_quotients(args: typing.Any) -> bool:
    left, right = (torch.as_tensor(arg).detach().double() for arg in args[:2])
    quotients = (left / right).abs()
    return bool((quotients.isfinite() & (quotients > QUOTIENT_MAX)).any())


def _accumulates(args: typing.Any, kwargs: typing.Any) -> bool:
    return kwargs.get("accumulate", False) or len(args) > 3 and args[3] is True
