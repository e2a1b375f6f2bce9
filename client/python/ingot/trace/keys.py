# SPDX-License-Identifier: Apache-2.0
"""The entry key: everything about a call that can be known before it runs, as named components."""

import builtins
import functools
import platform
import sys
import types
import typing
import warnings

import torch

from ingot import _native, gears, patterns
from ingot.trace import calls, groups, kinds, paths
from ingot.config import Config, pass_name

Item = tuple[str, str, str]
"""(name, digest as hex, short text)"""
Component = tuple[str, list[Item]]

DTYPE_NAMES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
               torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
               torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2"}


_live_groups: "dict[str, str]" = {}


def _item(name: str, text: str) -> Item:
    if not name.isascii():
        text = f"{name} {text}"  # What is shown may be shown of another as well.
    return (_shown(name), _native.digest_bytes(text.encode("utf-8", "surrogatepass")), _shown(text[:200]))


def _shown(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _value_item(name: str, value: typing.Any) -> Item:
    digest, text, _ = _native.digest_value(value)
    return (name, digest, text)


PIECE = "_ingot_piece"
"""An attribute of functions that are a piece of another: which, in words."""


def function_name(function: typing.Any) -> str:
    """``pkg.Class.forward``: the name under which entries are listed."""
    plain = paths.plain_function(function)
    owner = paths.self_of(function)
    where = getattr(plain, PIECE, "")
    if owner is not None and plain is not None:
        name = plain.__name__
        return _shown(f"{type(owner).__module__}.{type(owner).__qualname__}.{name}{where}")
    named = plain or function
    return _shown(f"{getattr(named, '__module__', '?')}.{getattr(named, '__qualname__', type(named).__qualname__)}{where}")


def parameter_names(function: typing.Any) -> "tuple[str, ...]":
    """What the function calls its positional arguments, without ``self``."""
    plain = paths.plain_function(function)
    if plain is None:
        return ()
    names = plain.__code__.co_varnames[:plain.__code__.co_argcount]
    return typing.cast("tuple[str, ...]", names[1:] if paths.self_of(function) is not None else names)


def _function_items(function: typing.Any) -> "list[Item]":
    items = [_item("name", function_name(function))]
    plain = paths.plain_function(function)
    if plain is not None:
        items.append((f"code {function_name(function)}", _native.digest_code(plain.__code__), ""))
        # Two modules may hold the same text, and two copies of one module other values.
        name = str(plain.__globals__.get("__name__"))
        is_found = getattr(sys.modules.get(name), "__dict__", None) is plain.__globals__
        items.append(_item("globals", name if is_found else f"{name}, a copy that is not the one in sys.modules"))
        if plain.__builtins__ is not vars(builtins):
            items.append(_item("builtins", "of its own"))
        if plain.__defaults__ or plain.__kwdefaults__:
            items.append(_value_item("defaults", (plain.__defaults__, plain.__kwdefaults__)))
    return items


_SCALARS = frozenset((type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device))


def _state(function: typing.Any, objects: "typing.Sequence[typing.Any]") -> "list[Item]":
    """Structure of what the function belongs to and closes over; classes of the objects among its arguments.

    What a program reads of them is in the dependency record instead: only a recording knows it.
    """
    items: "list[Item]" = []
    owner = paths.self_of(function)
    roots: "list[tuple[str, typing.Any]]" = [("self", owner)] if owner is not None else []
    roots += [(f"closure.{name}", value) for name, value in sorted(paths.closure_of(function).items())]
    roots += [(f"argument.{i}", value) for i, value in enumerate(objects) if kinds.is_a(value, torch.nn.Module)]
    for name, root in roots:
        if type(root) in _SCALARS:
            # A cell is there because the code reads it; a factory's functions differ in little else.
            items.append(_value_item(name, root))
            continue
        items += _native.structure_of(root, name)
    for i, value in enumerate(objects):
        if not kinds.is_a(value, torch.nn.Module):
            items.append(_item(f"argument.{i}", kinds.class_name(value)))
    return items


def _atom(value: typing.Any) -> str:
    """A plain value in words that no other has."""
    if type(value) is int and value.bit_length() > 1000:  # Python writes decimal digits up to some number alone.
        return hex(value)
    if type(value) in (float, complex) and value != value:
        return f"{value!r} {_native.digest_value(value)[0]}"  # Which one, the words do not say.
    if type(value) is tuple:
        return f"({', '.join(map(_atom, value))},)"
    return repr(value)


def describe(value: typing.Any, seen: "dict[int, int] | None" = None, depth: int = 0) -> str:
    """An argument without its sizes, the same in every process: ``(f32[2], {mask: i64[2]}, 3)``.

    ``seen`` numbers the tensors and objects of one call by identity, so that one passed twice is told from two.
    """
    seen = {} if seen is None else seen
    if kinds.is_tensor(value):
        if id(value) in seen:
            return f"tensor {seen[id(value)]}"
        seen[id(value)] = len(seen)
        kind = " parameter" if type(value) is torch.nn.Parameter else ""
        kind += " that requires grad" if value.requires_grad else ""
        kind += " of inference" if value.is_inference() else ""
        if _native.has_own_attributes(value):
            kind += f" with attributes {', '.join(map(repr, sorted(_native.own_attributes(value))))}"
        return f"{DTYPE_NAMES.get(value.dtype, str(value.dtype))}[{value.dim()}]@{value.device.type}{kind}"
    if (type(value) is list or kinds.is_a(value, tuple)) and depth < 32:
        inner = ", ".join(describe(v, seen, depth + 1) for v in kinds.elements(value))
        kind = "" if type(value) in (tuple, list) else type(value).__qualname__
        kind += " with attributes " if kind and _native.has_own_attributes(value) else ""
        return f"[{inner}]" if type(value) is list else f"{kind}({inner})"
    if type(value) is dict and depth < 32 and _native.has_plain_keys(value):
        return "{" + ", ".join(f"{_atom(k)}: {describe(v, seen, depth + 1)}" for k, v in value.items()) + "}"
    if type(value) is str:
        group = _live_groups.get(value)
        return f"{value!r} (process group {group})" if group else repr(value)
    if type(value) in _SCALARS:
        return _atom(value)
    if type(value) is calls.ByReference:
        return _describe_object(value.container, seen)
    if type(value) is calls.DynamicScalar:
        return f"a {value.kind} that varies"
    held = _native.dataclass_fields(value) if depth < 32 else None
    if held is not None:
        fields = ", ".join(f"{name}={describe(field, seen, depth + 1)}" for name, field in held.items())
        others = " with attributes" if _native.has_own_attributes(value) else ""
        return f"{kinds.class_name(value)}({fields}){others}"
    return _describe_object(value, seen)


def _describe_object(value: typing.Any, seen: "dict[int, int]") -> str:
    known = seen.get(id(value))
    seen.setdefault(id(value), len(seen))
    return f"<{kinds.class_name(value)}>" if known is None else f"object {known}"


@functools.lru_cache(maxsize=1)
def _fixed_environment() -> "tuple[Item, ...]":
    import ingot

    return (_item("python", ".".join(map(str, sys.version_info[:2]))),
            _item("torch", f"{torch.__version__} {torch.version.git_version}"),
            _item("ingot", f"{ingot.__version__} {_native.build}"),
            _item("platform", f"{platform.system()} {platform.machine()}"))


_FEATURES = ("avx2", "avx512_bf16", "avx512_fp16", "avx512_vnni", "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl",
             "avx_vnni", "amx_bf16", "amx_int8", "amx_tile", "bmi1", "bmi2", "f16c", "fma")


@functools.lru_cache(maxsize=1)
def _cpu() -> "tuple[str, ...]":
    """The features code may use, sorted, without what only tunes."""
    return tuple(sorted(_native.cpu_features() & set(_FEATURES)))


def _environment() -> "list[Item]":
    mode = ("inference " if torch.is_inference_mode_enabled() else "") + ("grad" if torch.is_grad_enabled() else "no_grad")
    return [*_fixed_environment(), _item("grad_mode", mode), _item("autocast", str(torch.is_autocast_enabled("cpu"))),
            _item("default_dtype", str(torch.get_default_dtype())),
            *(_item(name, str(value)) for _, name, value, _ in _native.context_settings() if value is not None), *_unusual()]


def _unusual() -> "typing.Iterator[Item]":
    """What changes answers without anybody reading it, and is as Python and PyTorch have it nearly everywhere."""
    if sys.get_int_max_str_digits() != sys.int_info.default_max_str_digits:
        yield _item("int_max_str_digits", str(sys.get_int_max_str_digits()))
    if any(action == "error" for action, *_ in warnings.filters):
        yield _item("warnings", "error")


def _gear_items(declared: "gears.Declared | None", config: Config) -> "list[Item]":
    if declared is None or not declared.dims:
        return []
    places = ", ".join(f"tensor {tensor} dim {dim}" for tensor, dim, _ in declared.dims)
    return [_item("places", places), _item("merge", declared.merge), _item("sizes", str(sorted(declared.gears))),
            _item("specialize", str(config.gears.specialize))]


class EntryKey(typing.NamedTuple):
    components: "list[Component]"
    patterns: "tuple[patterns.Pattern, ...]" = ()
    """Those that were registered when the key was made."""

    def digest(self) -> str:
        """For use inside this process; the daemon derives its own."""
        return str(_native.digest_text(repr([(n, [(i[0], i[1]) for i in items]) for n, items in self.components])))


def entry_key(function: typing.Any, args: "tuple[typing.Any, ...]", kwargs: "dict[str, typing.Any]",
              objects: "typing.Sequence[typing.Any]", config: Config, declared: "gears.Declared | None" = None,
              sizes: gears.Sizes = ()) -> EntryKey:
    """The key of one call; costs about a millisecond for a model of hundreds of submodules.

    ``sizes`` are those of the call's tensors, of which ``declared`` says what is fixed and what has gears.
    """
    # A string that names a process group means the group, and so does a group object.
    global _live_groups
    _live_groups = groups.live()
    _native.set_live_groups(_live_groups)
    seen: "dict[int, int]" = {}
    names = parameter_names(function)
    inputs = [_item(names[i] if i < len(names) else f"args[{i}]", describe(value, seen)) for i, value in enumerate(args)]
    inputs += [_item(f"{name}=", describe(value, seen)) for name, value in kwargs.items()]
    if declared is not None:
        inputs += [_item(f"tensor {tensor} size({dim})", str(sizes[tensor][dim])) for tensor, dim in declared.static]
    given = {name: getattr(config, name) for name in ("global_rank", "tp_rank", "pp_rank")}
    parallel = groups.Parallel.of(config.sequence_parallel)
    ranks = [_item(name, value) for name, value in groups.ranks_of_process(given)]
    components: "list[Component]" = [
        ("function", _function_items(function)),
        ("module_state", _state(function, objects)),
        ("inputs", inputs),
        ("gears", _gear_items(declared, config)),
        ("ranks", ranks),
        ("config", [_item("dynamic", str(config.dynamic is not False)),
                    *([_item("capture", config.capture)] if config.capture != "record" else []),
                    *(_item(f"pass {pass_name(one)}", one.version) for one in config.passes),
                    *([_item("sequence_parallel", parallel.identity)] if parallel is not None else []),
                    *([_item("numerics", config.numerics)] if config.numerics != "fused" else [])]),
        ("environment", _environment()),
        ("target", [(f"feature {name}", _native.digest_text(name), "present") for name in _cpu()]),
    ]
    registered = patterns.registered()
    if registered:
        components.append(("patterns", [(pattern.name, pattern.digest, "") for pattern in registered]))
    return EntryKey(components, registered)


def _closure_items(function: typing.Any) -> "list[Item]":
    """What a function made by another has around it: two of one factory may do different things with the same arguments."""
    plain = paths.plain_function(function)
    items = []
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or ()) if plain is not None else ():
        try:
            inner = paths.plain_function(cell.cell_contents)
        except ValueError:  # Nothing yet.
            inner = None
        if inner is not None:
            items.append((f"closure {name}", _native.digest_code(inner.__code__), ""))
    return items


def learnt_key(function: typing.Any, config: Config) -> "list[Component]":
    """The key of what is known of a callable's arguments before any of them has been seen."""
    return [("learnt_of", [*_function_items(function), *_closure_items(function)]), ("module_state", _state(function, ())),
            ("config", [_item("dynamic", str(config.dynamic is not False)), _item("capture", config.capture)]),
            ("environment", list(_fixed_environment()))]


def is_builtin(function: typing.Any) -> bool:
    """True for callables without Python code, such as torch.add."""
    return isinstance(function, (types.BuiltinFunctionType, types.BuiltinMethodType))
