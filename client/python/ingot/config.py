# SPDX-License-Identifier: Apache-2.0
"""Every option of the client, and the only module that reads Ingot's environment variables. Where a daemon, its socket and its
store are, C++ programs have to know as well: INGOT_DAEMON, INGOT_CODE_DIR (client/lib), INGOT_SOCKET and INGOT_STORE_DIR (proto)."""

import dataclasses
import functools
import os
import pathlib
import re
import typing

from ingot import errors
from ingot.trace import groups
from ingot.settings import Settings


if typing.TYPE_CHECKING:
    import torch


THREADS_MAX = 256
"""Of one call; more have no work there."""


class Pass(typing.Protocol):
    """What ``passes`` holds."""

    version: str

    def __call__(self, module: "torch.fx.GraphModule", /) -> "torch.fx.GraphModule | None": ...


@dataclasses.dataclass
class Gears(Settings):
    """How gears combine and what is made of them; see :func:`ingot.set_dim_gears`."""

    merge: str = "zip"
    """*key* ``zip``: the first sizes together, the second together. ``product``: every combination, at most 100."""
    specialize: bool = True
    """*key* Code of its own for each gear where the compiler expects it to be faster. It may round sums in another order."""

    def checked(self, name: str, value: typing.Any) -> typing.Any:
        """Invalid says what is expected."""
        if name == "specialize" and not isinstance(value, bool):
            raise errors.Invalid(f"gears.specialize={value!r}: expected True or False")
        if name == "merge" and value not in ("zip", "product"):
            raise errors.Invalid(f"Value {value!r} (type: {type(value)}) not in optional list ['zip', 'product']")
        return value


@dataclasses.dataclass
class Config(Settings):
    """Options of one call site. Fields marked *key* change the code and are part of the entry key.

    What is said here, in the constructor or by assignment (``config.gears.merge = "product"``), is added to the file that
    INGOT_CONFIG names and to the environment; all else stays as they have it. After its first use a Config is fixed.
    """

    store_dir: str = ""
    """Directory of the store; empty = INGOT_STORE_DIR, else ``$XDG_CACHE_HOME/ingot``."""
    socket: str = ""
    """Where a daemon listens that this process starts; empty = INGOT_SOCKET, else in the store directory. One that has the store is found wherever it listens."""
    wait: bool = False
    """A recorded call returns only after its native code is installed or has failed."""
    dynamic: "bool | None" = None
    """*key* False: every size its own variant. None, True: a template from the second size on."""
    capture: str = "record"
    """*key* ``record``: while the function runs. ``export``: as torch.export sees it, which takes seconds on the first call, and
    serves every size inside the range that export and a few recordings prove, and some programs that recording refuses
    (transforms of torch.func)."""
    numerics: str = "fused"
    """*key* ``fused``: bfloat16 and float16 values that stay inside a kernel are float32 there, except where a result is
    discrete. ``eager``: each is rounded to its type, as PyTorch rounds it; see docs/numerics.md."""
    sequence_parallel: typing.Any = False
    """*key* True, or a process group: behind sums over its ranks (True: all of the job's) each computes a block of the rows,
    which are gathered where a product needs all of them. Calls wait for each other on all ranks, and tensors that meet such
    a sum must be the same on all of them; see docs/ranks.md."""
    passes: "tuple[Pass, ...]" = ()
    """*key* With ``capture="export"``: functions that take the exported ``torch.fx.GraphModule`` and change it, or return another
    one, in this order. Each has an attribute ``version``, a string that is changed with what the pass does: that, and not
    its code, is in the key."""
    on_miss: str = "compile"
    """What a size does that has no variant (where gears are declared: that is no gear): ``compile`` (eager now, native
    soon) | ``eager`` (never record) | ``error`` (raise NotFound with the nearest) | ``pad`` (to the next gear, where
    ``set_dim_gears`` gave a value to pad with; a size is trusted once its padded answer has equalled eager's)."""
    gears: Gears = dataclasses.field(default_factory=Gears)
    """*key* How gears combine: ``Gears(merge="zip" | "product")``, and whether each gets code of its own where that pays
    (``specialize=False``: never). In a file a table ``[gears]``."""
    on_unsupported: str = "eager"
    """``eager`` | ``error``: what a call does that cannot be captured."""
    opaque: str = "warn"
    """State that cannot be digested: ``trust`` | ``warn`` (once) | ``trace`` (never reuse from the store)."""
    threads: "int | None" = None
    """Threads of one call. None: this process's part of what the machine has for calls, and no more than ``torch.get_num_threads()``;
    a number: as many, whatever else runs (docs/serving.md)."""
    guards: str = "always"
    """How often a native call asks its guards that do not keep memory safe: ``always``; ``first`` (until one call has
    passed); ``sample:N`` (the first call and every N-th after); ``skip`` (never, once a variant is installed).

    These are: the watch of what may change in this process (attributes, submodules, hooks, lists, globals, closures,
    patched functions, assigned parameters), plain state of object arguments, and value guards (numbers read from
    tensors that steered Python). Checked on every call under every policy: rank, sizes, strides, element type and device
    of inputs and weights, memory shared with what is written, sizes that depend on data, proved sizes, Python scalars
    and structure of the arguments, which objects are passed, grad mode. ``stats()`` counts what was left out."""
    verify: str = ""
    """``sample:N``: every N-th native call of a call site runs eagerly as well and is compared (INGOT_VERIFY)."""
    agree: str = "once"
    """``once``: native code is run once on copies of the call that it was recorded from, before it serves any, and held against
    what eager answered; what no process here has recorded is served on the compiler's proof. ``require``: calls are eager until
    code has been compared at sizes of their kind; what cannot be compared is never served. ``off``: neither. See docs/agreed.md."""
    agree_bytes_max: int = 256 << 20
    """Memory for copies of calls that have not been compared yet, of all call sites together; what needs more is not compared."""
    agree_captures_max: int = 4
    """Calls whose answers differed that are kept in the store's directory, the newest."""
    stand_aside: bool = True
    """Calls run the plain function where it is faster than what serves them: both are timed, on a few calls of each structure. Not where
    ``on_unsupported``, ``require_cached`` or ``sequence_parallel`` want no eager answer."""
    require_cached: bool = False
    """A call that would have to compile raises NotFound instead (INGOT_REQUIRE_CACHED=1)."""
    connect_ms_max: int = 2000
    """Longest wait for the daemon to start and answer, in milliseconds."""
    first_lookup_ms_max: int = 250
    """Longest wait for the daemon before a first call is simply recorded, in milliseconds."""
    compile_ms_max: int = 600_000
    """Longest wait for one compile, in milliseconds."""
    exit_wait_ms_max: int = 2000
    """Longest wait at interpreter exit for compiles under way, in milliseconds."""
    variants_max: int = 16
    """Variants of one argument shape; further sizes run eagerly."""
    sizes_max: int = 256
    """Sizes of one variant, each proved by a recording of its own; further ones run eagerly."""
    shapes_max: int = 64
    """Argument shapes (structures and Python scalars) of one call site; further ones run eagerly."""
    value_guard_failures_max: int = 8
    """Failed value guards after which a shape runs eagerly for good."""
    recordings_in_vain_max: int = 32
    """Recordings of a shape in a row, none of which has served a call, after which it is recorded no more."""
    instructions_max: int = 5_000_000
    """Python instructions of a call that is observed; a longer one runs eagerly."""
    global_rank: "int | None" = None
    """*key* Who asks: rank in the whole job."""
    tp_rank: "int | None" = None
    """*key* Tensor-parallel rank."""
    pp_rank: "int | None" = None
    """*key* Pipeline-parallel rank."""

    def checked(self, name: str, value: typing.Any) -> typing.Any:
        """The value as it is kept; Invalid says what is expected."""
        if name in ("store_dir", "socket"):
            if not isinstance(value, (str, os.PathLike)):
                raise errors.Invalid(f"{name}={value!r}: expected a path")
            return os.fspath(value)
        if name in _CHOICES and value not in _CHOICES[name]:
            raise errors.Invalid(f"{name}={value!r}: expected one of {', '.join(map(repr, _CHOICES[name]))}")
        if name == "guards" and not _is_policy(value):
            raise errors.Invalid(f"guards={value!r}: expected 'always', 'first', 'skip' or 'sample:N' with N from 1")
        if name == "passes":
            return _passes_of(value)
        if name == "gears" and not isinstance(value, Gears):
            raise errors.Invalid(f"gears is {type(value).__name__}: expected ingot.Gears or a dict of its fields")
        if name.endswith("_max") and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise errors.Invalid(f"{name}={value!r}: expected a number that is not negative")
        if name in ("wait", "require_cached", "stand_aside") and not isinstance(value, bool):
            raise errors.Invalid(f"{name}={value!r}: expected True or False")
        if name == "sequence_parallel" and not isinstance(value, bool) and not groups.is_one(value):
            raise errors.Invalid(f"sequence_parallel is {type(value).__name__}: expected True, False or a process group of torch.distributed")
        if name == "dynamic" and value is not None and not isinstance(value, bool):
            raise errors.Invalid(f"dynamic={value!r}: expected True, False or None")
        if name.endswith("_rank") and value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise errors.Invalid(f"{name}={value!r}: expected a rank that is not negative, or None")
        if name == "threads" and value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= THREADS_MAX):
            raise errors.Invalid(f"threads={value!r}: expected a number from 1 to {THREADS_MAX}, or None")
        if name == "verify":
            _sample_of(value)
        return value

    def verify_every(self) -> int:
        """N of ``verify="sample:N"``, 0 without it."""
        return _sample_of(self.verify)

    @classmethod
    def from_file(cls, path: "str | os.PathLike[str]") -> "Config":
        """Reads a TOML file whose keys are the fields above; an unknown key is an error."""
        config = cls()
        for source, values in _layers_in(path):
            config.lay_over(source, values)
        return config


def _layers_in(path: "str | os.PathLike[str]") -> "list[tuple[str, dict[str, typing.Any]]]":
    """The fields of a file, each with "FILE:LINE". The daemon's table belongs to it, but who names a place there names it for both."""
    import tomllib

    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise errors.Invalid(f"{path}: {e}") from None
    except UnicodeDecodeError as e:
        raise errors.Invalid(f"{path}: no UTF-8 text: {e}") from None
    except OSError as e:
        raise errors.NotFound(f"{path}: {e.strerror}; INGOT_CONFIG or the argument names a file that cannot be read") from None
    daemon = values.pop("daemon", {})
    for name in _PLACES:
        if isinstance(daemon, dict) and name in daemon:
            values.setdefault(name, daemon[name])
    return [(f"{path}:{_line_of(name, text)}", {name: value}) for name, value in values.items()]


@functools.cache
def _shares(path: str) -> bool:
    """Errors are for those who need what the file says."""
    try:
        import tomllib

        daemon = tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8")).get("daemon", {})
    except (ImportError, OSError, UnicodeDecodeError, ValueError):
        return False
    return isinstance(daemon, dict) and bool(daemon.get("cluster_index") or daemon.get("cluster_blobs_endpoint"))


def has_cluster() -> bool:
    """Whether a daemon that is started here asks other machines, as the file that INGOT_CONFIG names has it."""
    return bool(path := os.environ.get("INGOT_CONFIG")) and _shares(path)


def _line_of(name: str, text: str) -> int:
    """The line of a file's field or table: the parser has none."""
    names = re.compile(rf"\s*\[?\s*[\"']?{re.escape(name)}[\"']?\s*[=.\]]")
    return next((n for n, line in enumerate(text.splitlines(), 1) if names.match(line)), 1)


def _passes_of(value: typing.Any) -> "tuple[typing.Any, ...]":
    if not isinstance(value, (list, tuple)):
        raise errors.Invalid(f"passes is {type(value).__name__}: expected a list of functions over torch.fx.GraphModule")
    for one in value:
        if not callable(one):
            raise errors.Invalid(f"passes holds {type(one).__name__}: expected a function over torch.fx.GraphModule")
        version = getattr(one, "version", None)
        if not isinstance(version, str) or not version:
            raise errors.Invalid(f"pass {pass_name(one)} has {'no version' if version is None else f'version={version!r}'}: expected a string in its attribute "
                                 "'version', which is a part of the key and is changed with what the pass does")
    return tuple(value)


def pass_name(one: typing.Any) -> str:
    """``pkg.fold_scales``: what a user's pass is called in keys and messages."""
    named = one if hasattr(one, "__qualname__") else type(one)
    return f"{named.__module__}.{named.__qualname__}"


def _sample_of(verify: typing.Any) -> int:
    kind, _, count = verify.partition(":") if isinstance(verify, str) else ("", "", "")
    if verify != "" and (kind != "sample" or not count.isdigit() or int(count) < 1):
        raise errors.Invalid(f"verify={verify!r}: expected 'sample:N' with N of 1 or more, or '' for no verification")
    return int(count) if count else 0


_CHOICES = {"capture": ("record", "export"), "numerics": ("fused", "eager"),
            "on_miss": ("compile", "eager", "error", "pad"), "on_unsupported": ("eager", "error"),
            "opaque": ("warn", "trust", "trace"), "agree": ("once", "require", "off")}


def _is_policy(value: typing.Any) -> bool:
    kind, _, number = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind == "sample":
        return number.isascii() and number.isdigit() and 0 < int(number) < 1 << 63
    return value in ("always", "first", "skip")


_ON, _OFF = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


def _flag(name: str) -> bool:
    """The switch of that name; Invalid where the variable says neither."""
    value = os.environ.get(name, "")
    if value.strip().lower() not in _ON + _OFF:
        raise errors.Invalid(f"{name}={value!r}: expected one of {', '.join(_ON)} or one of {', '.join(_OFF[1:])}")
    return value.strip().lower() in _ON


def disabled() -> bool:
    """INGOT_DISABLE=1: every call runs eagerly."""
    try:
        return _flag("INGOT_DISABLE")
    except errors.Invalid:
        return True  # Said where a call site is made; no call of a program raises for it.


_PLACES = {"store_dir": "INGOT_STORE_DIR", "socket": "INGOT_SOCKET"}


def places() -> "dict[str, str | None]":
    """Store and socket as the environment of this process names them; None where it does not."""
    return {name: os.environ.get(variable) or None for name, variable in _PLACES.items()}


def store_directory() -> str:
    """Where the store is that this process uses unless a call says otherwise."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return resolve(None).store_dir or os.path.join(cache, "ingot")


def _environment() -> "list[tuple[str, dict[str, typing.Any]]]":
    """What each variable says, under its name."""
    _flag("INGOT_DISABLE")
    found: "list[tuple[str, dict[str, typing.Any]]]" = [(_PLACES[name], {name: value}) for name, value in places().items() if value is not None]
    for variable, name in (("INGOT_WAIT", "wait"), ("INGOT_REQUIRE_CACHED", "require_cached")):
        if _flag(variable):
            found.append((variable, {name: True}))
    if os.environ.get("INGOT_VERIFY"):
        found.append(("INGOT_VERIFY", {"verify": os.environ["INGOT_VERIFY"]}))
    return found


def resolve(config: "Config | typing.Mapping[str, typing.Any] | None", **overrides: typing.Any) -> Config:
    """Defaults, then the INGOT_CONFIG file, then the environment, then what ``config`` says, then arguments that are not None.
    ``config`` is fixed from now on."""
    resolved = Config()
    path = os.environ.get("INGOT_CONFIG")
    layers = (_layers_in(path) if path else []) + _environment()
    if isinstance(config, Config):
        config.use()
        layers.append(("config", config.said()))
    elif isinstance(config, typing.Mapping):
        layers.append(("config", dict(config)))
    elif config is not None:
        raise errors.Invalid(f"config is {type(config).__name__}: expected ingot.Config, a dict of its fields, or None")
    layers.append(("arguments", {name: value for name, value in overrides.items() if value is not None}))
    for source, values in layers:
        # An empty place names none.
        resolved.lay_over(source, {name: value for name, value in values.items() if value != "" or name not in ("store_dir", "socket")})
    resolved.use()
    return resolved
