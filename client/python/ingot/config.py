# SPDX-License-Identifier: Apache-2.0
"""Every option of the client, and the only place that reads Ingot's environment variables."""

import dataclasses
import os
import pathlib
import typing

from ingot import errors


@dataclasses.dataclass(frozen=True)
class Gears:
    """How gears combine and what is made of them; see :func:`ingot.set_dim_gears`."""

    merge: str = "zip"
    """*key* ``zip``: the first sizes together, the second together. ``product``: every combination, at most 100."""
    specialize: bool = True
    """*key* Code of its own for each gear where the compiler expects it to be faster. It may round sums in another order."""

    def __post_init__(self) -> None:
        if not isinstance(self.specialize, bool):
            raise errors.Invalid(f"gears.specialize={self.specialize!r}: expected True or False")
        if self.merge not in ("zip", "product"):
            raise errors.Invalid(f"Value {self.merge!r} (type: {type(self.merge)}) not in optional list ['zip', 'product']")


@dataclasses.dataclass(frozen=True)
class Config:
    """Options of one call site. Fields marked *key* change the code and are part of the entry key."""

    store_dir: str = ""
    """Directory of the store; empty = INGOT_STORE_DIR, else ``$XDG_CACHE_HOME/ingot``."""
    socket: str = ""
    """Socket of the daemon; empty = INGOT_SOCKET, else derived from the store directory."""
    wait: bool = False
    """A recorded call returns only after its native code is installed or has failed."""
    dynamic: "bool | None" = None
    """*key* False: every size its own variant. None, True: a template from the second size on."""
    capture: str = "record"
    """*key* ``record``: while the function runs. ``export``: as torch.export sees it, which takes seconds on the first call, and
    serves every size inside the range that export and a few recordings prove, and some programs that recording refuses
    (transforms of torch.func)."""
    on_miss: str = "compile"
    """What a size does that has no variant (where gears are declared: that is no gear): ``compile`` (eager now, native
    soon) | ``eager`` (never record) | ``error`` (raise NotFound with the nearest) | ``pad`` (to the next gear, where
    ``set_dim_gears`` gave a value to pad with; a size is trusted once its padded answer has equalled eager's)."""
    gears: Gears = Gears()
    """*key* How gears combine: ``Gears(merge="zip" | "product")``, and whether each gets code of its own where that pays
    (``specialize=False``: never). In a file a table ``[gears]``."""
    on_unsupported: str = "eager"
    """``eager`` | ``error``: what a call does that cannot be captured."""
    opaque: str = "warn"
    """State that cannot be digested: ``trust`` | ``warn`` (once) | ``trace`` (never reuse from the store)."""
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
    shapes_max: int = 64
    """Argument shapes (structures and Python scalars) of one call site; further ones run eagerly."""
    value_guard_failures_max: int = 8
    """Failed value guards after which a shape runs eagerly for good."""
    instructions_max: int = 5_000_000
    """Python instructions of a call that is observed; a longer one runs eagerly."""
    global_rank: "int | None" = None
    """*key* Who asks: rank in the whole job."""
    tp_rank: "int | None" = None
    """*key* Tensor-parallel rank."""
    pp_rank: "int | None" = None
    """*key* Pipeline-parallel rank."""

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise errors.Invalid(f"{name}={getattr(self, name)!r}: expected one of {', '.join(map(repr, allowed))}")
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "guards" and not _is_policy(value):
                raise errors.Invalid(f"guards={value!r}: expected 'always', 'first', 'skip' or 'sample:N' with N from 1")
            if field.name.endswith("_max") and (not isinstance(value, int) or value < 0):
                raise errors.Invalid(f"{field.name}={value!r}: expected a number that is not negative")

        self.verify_every()

    def verify_every(self) -> int:
        """N of ``verify="sample:N"``, 0 without it; Invalid for anything else."""
        kind, _, count = self.verify.partition(":")
        if self.verify and (kind != "sample" or not count.isdigit() or int(count) < 1):
            raise errors.Invalid(f"verify={self.verify!r}: expected 'sample:N' with N of 1 or more, or '' for no verification")
        return int(count) if count else 0

    @classmethod
    def from_file(cls, path: "str | os.PathLike[str]") -> "Config":
        """Reads a TOML file whose keys are the fields above; an unknown key is an error."""
        import tomllib

        try:
            values = tomllib.loads(pathlib.Path(path).read_text())
        except tomllib.TOMLDecodeError as e:
            raise errors.Invalid(f"{path}: {e}") from None
        values.pop("daemon", None)
        return cls()._replace(str(path), values)

    def _replace(self, source: str, values: "dict[str, typing.Any]") -> "Config":
        names = {field.name for field in dataclasses.fields(self)}
        unknown = sorted(set(values) - names)
        if unknown:
            raise errors.Invalid(f"{source}: unknown option {unknown[0]!r}; the options are {', '.join(sorted(names))}")
        gears = values.get("gears")
        if isinstance(gears, dict):
            bad = sorted(set(gears) - {"merge", "specialize"})
            if bad:
                raise errors.Invalid(f"{source}: unknown option 'gears.{bad[0]}'; there are gears.merge and gears.specialize")
            values = {**values, "gears": Gears(**gears)}
        elif not isinstance(gears, (Gears, type(None))):
            raise errors.Invalid(f"{source}: gears is {type(gears).__name__}: expected ingot.Gears or a dict of its fields")
        return dataclasses.replace(self, **values)


_CHOICES = {"capture": ("record", "export"),
            "on_miss": ("compile", "eager", "error", "pad"), "on_unsupported": ("eager", "error"),
            "opaque": ("warn", "trust", "trace")}


def _is_policy(value: typing.Any) -> bool:
    kind, _, number = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind == "sample":
        return number.isascii() and number.isdigit() and 0 < int(number) < 1 << 63
    return value in ("always", "first", "skip")


def _flag(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


def disabled() -> bool:
    """INGOT_DISABLE=1: every call runs eagerly."""
    return _flag("INGOT_DISABLE")


def places() -> "dict[str, str | None]":
    """Store and socket as the environment of this process names them; None where it does not."""
    return {"store_dir": os.environ.get("INGOT_STORE_DIR") or None, "socket": os.environ.get("INGOT_SOCKET") or None}


def resolve(config: "Config | dict[str, typing.Any] | None", **overrides: typing.Any) -> Config:
    """Defaults, then the INGOT_CONFIG file, then the environment, then ``config``, then arguments that are not None."""
    if isinstance(config, dict):
        config = Config()._replace("config", config)
    if config is None:
        path = os.environ.get("INGOT_CONFIG")
        config = Config.from_file(path) if path else Config()
        changes: "dict[str, typing.Any]" = {}
        if _flag("INGOT_WAIT"):
            changes["wait"] = True
        if os.environ.get("INGOT_VERIFY"):
            changes["verify"] = os.environ["INGOT_VERIFY"]
        if _flag("INGOT_REQUIRE_CACHED"):
            changes["require_cached"] = True
        config = dataclasses.replace(config, **changes)
    elif not isinstance(config, Config):
        raise errors.Invalid(f"config is {type(config).__name__}: expected ingot.Config, a dict of its fields, or None")
    given = {name: value for name, value in overrides.items() if value is not None}
    config = config._replace("arguments", given)
    return dataclasses.replace(config, store_dir=config.store_dir or os.environ.get("INGOT_STORE_DIR", ""),
                               socket=config.socket or os.environ.get("INGOT_SOCKET", ""))
