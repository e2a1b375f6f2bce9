# SPDX-License-Identifier: Apache-2.0
"""Exported files check calls as a call site does, hold every argument structure, and refuse what they could not check."""

import collections
import dataclasses
import json
import logging
import os
import subprocess
import sys

import pytest
import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 8)
        self.register_buffer("table", torch.arange(8.0))

    def forward(self, x, cache=None, *, scale=1.0, options=None):
        y = torch.tanh(self.linear(x)) * scale + self.table
        if cache is not None:
            y = y + cache["k"] - cache["v"][0]
        return {"y": y, "scaled": scale}


@pytest.fixture
def block():
    return Block().eval()


def exported(ingot, tmp_path, fn, *calls, **options):
    """The loaded file of a function compiled for these calls, each (args, kwargs)."""
    step = ingot.compile(fn, wait=True)
    with torch.no_grad():
        for args, kwargs in calls:
            for _ in range(2):
                step(*args, **kwargs)
    step.export(tmp_path / "f.ingot", **options)
    return ingot.load(tmp_path / "f.ingot", weights="anywhere")


def t(*sizes):
    return torch.randn(*sizes)


def test_scalars_names_and_structures_are_checked(ingot, block, tmp_path):
    loaded = exported(ingot, tmp_path, block, ((t(3, 8),), {"scale": 0.5, "options": {"mode": "fast", "levels": [1, (True, None)]}}))
    assert loaded.signatures == ["(x: float32[2 dims], scale=0.5, options={\"mode\": 'fast', \"levels\": [1, (True, None)]})"]
    good = {"scale": 0.5, "options": {"mode": "fast", "levels": [1, (True, None)]}}
    x = t(3, 8)
    with torch.no_grad():
        for rows in (3, 4):
            x = t(rows, 8)
            torch.testing.assert_close(loaded(x, **good), block(x, **good))
            torch.testing.assert_close(loaded(x, options=good["options"], scale=0.5), block(x, **good))
    for args, kwargs, message in (
            ((x,), {**good, "scale": 0.25}, r"'scale' is 0.25, this was compiled for 0.5"),
            ((x,), {**good, "scale": 1}, r"'scale' is 1, this was compiled for 0.5"),
            ((x,), {"scale": 0.5}, r"'options' is missing"),
            ((x,), {**good, "cache": None}, r"'cache' is passed by name"),
            ((x, None), good, r"2 positional arguments, this was compiled for 1: \(x: "),
            ((), good, r"0 positional arguments"),
            ((x,), {**good, "options": {"mode": "slow", "levels": [1, (True, None)]}}, r"""'options\["mode"\]' is 'slow'"""),
            ((x,), {**good, "options": {"mode": "fast", "levels": (1, (True, None))}}, r"""'options\["levels"\]' is \(1, """),
            ((x,), {**good, "options": {"mode": "fast", "levels": [True, (True, None)]}}, r"""'options\["levels"\]\[0\]' is True"""),
            ((x,), {**good, "options": {"levels": [1, (True, None)], "mode": "fast"}}, r"'options' is "),
            ((x.double(),), good, r"'x' is float64\[2 dims\], this was compiled for float32\[2 dims\]"),
            ((x[None],), good, r"'x' is float32\[3 dims\]"),
            ((x.t().contiguous().t(),), good, r"stride"),
            ((t(4, 9),), good, r"size 9 at dim 1"),
            ((t(1, 8),), good, r"sizes \[1\] are not among those that may be served"),
            ((x.tolist(),), good, r"'x' is \[\["),
            ((object(),), good, r"'args\[0\]' is a builtins.object")):
        with pytest.raises(ingot.Invalid, match=message):
            loaded(*args, **kwargs)


def test_prefill_and_decode_in_one_file(ingot, block, tmp_path):
    prefill = ((t(3, 8),), {})
    decode = ((t(1, 8), {"k": t(1, 8), "v": [t(8)]}), {"scale": 2.0})
    again = ((t(5, 8),), {})
    loaded = exported(ingot, tmp_path, block, prefill, decode, again)
    assert len(loaded.signatures) == 2
    with torch.no_grad():
        for args, kwargs in (prefill, decode, again, decode):
            torch.testing.assert_close(loaded(*args, **kwargs), block(*args, **kwargs))
    with pytest.raises(ingot.Invalid, match="none of 2 argument structures is that of .*'scale' is 3.0, this was compiled for 2.0"):
        loaded(decode[0][0], decode[0][1], scale=3.0)


def test_results_differ_with_the_structure(ingot, tmp_path):
    def fn(x, flag):
        return (x + 1, "yes") if flag else [x - 1]

    x = t(3)
    loaded = exported(ingot, tmp_path, fn, ((x, True), {}), ((x, False), {}))
    assert loaded(x, True)[1] == "yes" and isinstance(loaded(x, False), list)
    with pytest.raises(ingot.Invalid, match="'flag' is None"):
        loaded(x, None)


def test_a_tensor_in_two_places(ingot, tmp_path):
    x, y = t(3), t(3)
    loaded = exported(ingot, tmp_path, lambda a, b: a.mul_(2) + b, ((x, y), {}))
    torch.testing.assert_close(loaded(torch.ones(3), torch.ones(3)), torch.full((3,), 3.0))
    with pytest.raises(ingot.Invalid, match="passed before as well"):
        loaded(x, x)


Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Box:
    value: torch.Tensor
    label: str = "box"


def test_named_tuples_and_dataclasses(ingot, tmp_path):
    loaded = exported(ingot, tmp_path, lambda pair, box: pair.left * box.value - pair.right, ((Pair(t(3), t(3)), Box(t(3))), {}))
    torch.testing.assert_close(loaded(Pair(torch.ones(3), torch.ones(3)), Box(torch.ones(3) * 2)), torch.ones(3))
    with pytest.raises(ingot.Invalid, match="'args\\[0\\]|'pair' is"):
        loaded((t(3), t(3)), Box(t(3)))
    with pytest.raises(ingot.Invalid, match="'box.label' is 'other'"):
        loaded(Pair(t(3), t(3)), Box(t(3), "other"))


class Settings:
    factor = 2.0


def test_what_a_file_cannot_check_is_refused_by_name(ingot, block, tmp_path):
    held, refused = Settings(), 0
    for fn, args, message in ((lambda x, settings: x * settings.factor, (t(3), Settings()), r"'settings' is a .*Settings"),
                              (lambda x, alpha: x * 2, (t(3), 2j), r"'alpha' is a builtins.complex"),
                              (lambda x, table: x * table[(1, 2)], (t(3), {(1, 2): 2}), r"'table' has a key of type tuple"),
                              (lambda x: (x + 1, held), (t(3),), r"returns .*held, an object of this process")):
        step = ingot.compile(fn, wait=True)
        with torch.no_grad():
            for _ in range(3):
                step(*args)
        if not step.variants:
            continue  # Refused before: nothing is served, and so nothing exported.
        with pytest.raises(ingot.Unsupported, match=message):
            step.export(tmp_path / "f.ingot")
        assert not os.path.exists(tmp_path / "f.ingot")
        refused += 1
    assert refused >= 2
    with pytest.raises(ingot.NotFound, match="no variant yet"):
        ingot.compile(lambda x: x).export(tmp_path / "f.ingot")


def test_what_follows_a_mode_is_refused(ingot, tmp_path):
    """A loaded file does not know in which mode it was recorded."""
    step, x = ingot.compile(lambda x: x * (2 if torch.is_grad_enabled() else 3), wait=True), t(3)
    for _ in range(2):
        step(x)
    step.export(tmp_path / "one.ingot")
    torch.testing.assert_close(ingot.load(tmp_path / "one.ingot")(x), x * 2)
    with torch.no_grad():
        for _ in range(2):
            step(x)
    with pytest.raises(ingot.Unsupported, match="in another mode of PyTorch"):
        step.export(tmp_path / "two.ingot")
    assert not os.path.exists(tmp_path / "two.ingot")


def test_calls_that_are_not_native_are_said(ingot, tmp_path, caplog):
    def fn(x, flag):
        return x + (float(x.numpy()[0]) if flag else 1)

    with caplog.at_level(logging.WARNING, "ingot"):
        loaded = exported(ingot, tmp_path, fn, ((t(3), False), {}), ((t(3), True), {}))
    assert any("leaves out" in record.getMessage() for record in caplog.records)
    with pytest.raises(ingot.Invalid, match="'flag' is True"):
        loaded(t(3), True)


def test_tensors_that_no_code_serves(ingot, block, tmp_path):
    loaded = exported(ingot, tmp_path, block, ((t(3, 8),), {}))
    with pytest.raises(ingot.Unsupported, match=r"requires them \(test_exported.py:\d+\); call it under torch.no_grad"):
        loaded(t(3, 8).requires_grad_())
    with pytest.raises(ingot.Unsupported, match="subclass"):
        loaded(torch.nn.Parameter(t(3, 8), requires_grad=False).as_subclass(type("Marked", (torch.Tensor,), {})))
    with torch.no_grad():
        torch.testing.assert_close(loaded(t(3, 8).requires_grad_())["scaled"], 1.0)


# -- weights --------------------------------------------------------------------------------------------


def test_weights_by_reference(ingot, block, tmp_path):
    loaded = exported(ingot, tmp_path, block, ((t(3, 8),), {}), weights="reference")
    x = t(3, 8)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x), block(x))
    content = (tmp_path / "f.ingot").read_bytes()
    assert block.linear.weight.detach().numpy().tobytes() not in content
    from safetensors.torch import load_file, save_file

    stored = load_file(tmp_path / "f.safetensors")
    assert set(stored) == {"linear.weight", "linear.bias", "table"} and torch.equal(stored["linear.weight"], block.linear.weight)
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("f.ingot", "f.safetensors"):
        os.rename(tmp_path / name, moved / name)
    with torch.no_grad():
        torch.testing.assert_close(ingot.load(moved / "f.ingot")(x), block(x))
    save_file({**stored, "linear.bias": stored["linear.bias"] + 1}, moved / "f.safetensors")
    with pytest.raises(ingot.Corrupt, match="weight self.linear.bias: 'linear.bias' has other values"):
        ingot.load(moved / "f.ingot")
    save_file({**stored, "linear.bias": stored["linear.bias"].double()}, moved / "f.safetensors")
    with pytest.raises(ingot.Incompatible, match="is float64 .8., it was float32 .8."):
        ingot.load(moved / "f.ingot")
    save_file({"linear.weight": stored["linear.weight"], "table": stored["table"]}, moved / "f.safetensors")
    with pytest.raises(ingot.NotFound, match="no tensor 'linear.bias'"):
        ingot.load(moved / "f.ingot")
    os.remove(moved / "f.safetensors")
    with pytest.raises(ingot.NotFound, match="f.safetensors"):
        ingot.load(moved / "f.ingot")


def test_weights_of_a_checkpoint(ingot, block, tmp_path, caplog):
    from safetensors.torch import save_file

    (tmp_path / "hub").mkdir()
    (tmp_path / "out").mkdir()
    save_file({"model.w": block.linear.weight.detach(), "model.b": block.linear.bias.detach()}, tmp_path / "hub" / "model.safetensors")
    with caplog.at_level(logging.WARNING, "ingot"):
        loaded = exported(ingot, tmp_path / "out", block, ((t(3, 8),), {}), weights=tmp_path / "hub" / "model.safetensors")
    x = t(3, 8)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x), block(x))
    assert any("1 of 3 weights are not in" in record.getMessage() for record in caplog.records)
    content = (tmp_path / "out" / "f.ingot").read_bytes()
    assert block.linear.weight.detach().numpy().tobytes() not in content and block.table.numpy().tobytes() in content
    assert str(tmp_path / "hub").encode() in content
    with pytest.raises(ingot.NotFound, match="none.safetensors"):
        exported(ingot, tmp_path / "out", block, ((t(3, 8),), {}), weights=tmp_path / "none.safetensors")


def test_a_file_is_served_without_the_program(ingot, block, tmp_path):
    x = torch.ones(3, 8)
    exported(ingot, tmp_path, block, ((x,), {"scale": 0.5}))
    code = f"""
import json, torch, ingot
loaded = ingot.load({str(tmp_path / 'f.ingot')!r})
with torch.no_grad():
    y = loaded(torch.ones(3, 8), scale=0.5)
print(json.dumps([y["y"].sum().item(), y["scaled"], ingot.stats()["captures"]]))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "INGOT_STORE_DIR": "/proc/none"})
    total, scaled, captures = json.loads(done.stdout)
    assert (scaled, captures) == (0.5, 0)
    with torch.no_grad():
        assert abs(total - block(x, scale=0.5)["y"].sum().item()) < 1e-3
