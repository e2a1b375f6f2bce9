# SPDX-License-Identifier: Apache-2.0
"""An exported file is machine code. Who loads one with a trust file runs none that nobody who may has signed; its weights lie beside it."""

import json
import os
import pathlib
import shutil
import struct
import subprocess

import pytest
import torch
from conftest import BIN
from torch import nn

import ingot
from ingot import _native


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("table", torch.arange(3.0))

    def forward(self, x):
        return torch.tanh(self.linear(x)) * 0.5 + self.table


def run(*words, home, check=True, **kwargs):
    done = subprocess.run([str(BIN / "ingot"), *map(str, words)], env={**os.environ, "XDG_CONFIG_HOME": str(home)}, capture_output=True, **kwargs)
    if check:
        assert done.returncode == 0, done.stderr
    return done


class Signer:
    """A key, and the trust file of who trusts it."""

    def __init__(self, home, name):
        self.home, self.key, self.trust = home, home / "ingot" / "signing.key", home / "ingot" / "trust.toml"
        self.public = run("trust", "keygen", name, home=home).stdout.decode().strip()
        run("trust", "add", self.public, home=home)


@pytest.fixture
def ours(tmp_path, monkeypatch):
    signer = Signer(tmp_path / "ours", "ours")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(signer.home))
    return signer


@pytest.fixture
def theirs(tmp_path):
    return Signer(tmp_path / "theirs", "theirs")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.pt2"
    torch.export.save(torch.export.export(nn.Linear(4, 3).eval(), (torch.zeros(2, 4),)), str(path))
    return path


def compiled(archive, path, *options, home):
    run("compile", archive, "-o", path, *options, home=home)
    return path


def works(loaded):
    return loaded(torch.zeros(2, 4)).shape == (2, 3)


def test_a_signed_file_is_loaded(archive, ours, tmp_path):
    file = compiled(archive, tmp_path / "m.ingot", "--sign", home=ours.home)
    assert works(ingot.load(file, trust=True)) and works(ingot.load(file, trust=ours.trust)) and works(ingot.load(file))
    assert b"signed by key" in run("verify", file, home=ours.home).stdout
    again = compiled(archive, tmp_path / "again.ingot", home=ours.home)
    run("sign", again, home=ours.home)
    assert works(ingot.load(again, trust=True))


def test_an_unsigned_file_is_not(archive, ours, tmp_path):
    file = compiled(archive, tmp_path / "m.ingot", home=ours.home)
    with pytest.raises(ingot.Invalid, match="not trusted .unsigned.: nobody has signed it"):
        ingot.load(file, trust=True)
    assert run("verify", file, home=ours.home, check=False).returncode != 0


def test_a_changed_file_is_not(archive, ours, tmp_path):
    file = compiled(archive, tmp_path / "m.ingot", "--sign", home=ours.home)
    content = bytearray(file.read_bytes())
    for at in (0, 13, len(content) // 2, len(content) - 1):
        content[at] ^= 1
        file.write_bytes(content)
        with pytest.raises(ingot.Invalid, match="not trusted .other_artifact."):
            ingot.load(file, trust=True)
        content[at] ^= 1
    file.write_bytes(bytes(content) + b"\0")
    with pytest.raises(ingot.Invalid, match="other_artifact"):
        ingot.load(file, trust=True)


def test_a_file_of_another_signer_is_not(archive, ours, theirs, tmp_path):
    file = compiled(archive, tmp_path / "m.ingot", "--sign", home=theirs.home)
    with pytest.raises(ingot.Invalid, match="not trusted .unknown_key."):
        ingot.load(file, trust=ours.trust)
    assert works(ingot.load(file, trust=theirs.trust))
    run("trust", "revoke", "--key", "theirs", "--reason", "stolen", home=theirs.home)
    with pytest.raises(ingot.Invalid, match="not trusted .revoked."):
        ingot.load(file, trust=theirs.trust)
    with pytest.raises(ingot.Invalid, match="no_trust_file"):
        ingot.load(file, trust=tmp_path / "none.toml")


def test_a_signed_file_is_none_of_another_name(archive, ours, tmp_path):
    """Nor does a key that may sign files of one name sign those of others."""
    file = compiled(archive, tmp_path / "test.ingot", "--sign", home=ours.home)
    other = tmp_path / "prod.ingot"
    shutil.copy(file, other)
    shutil.copy(f"{file}.sig", f"{other}.sig")
    with pytest.raises(ingot.Invalid, match="signed as 'test.ingot', found as 'prod.ingot'"):
        ingot.load(other, trust=True)
    ours.trust.write_text(f'version = 1\n[[domain]]\nname = "test"\nfunctions = ["test*"]\n[[domain]]\nname = "all"\n'
                          f'[[key]]\npublic = "{ours.public}"\ndomains = ["test"]\n')
    assert works(ingot.load(file, trust=True))
    run("sign", other, home=ours.home)
    with pytest.raises(ingot.Invalid, match="not_in_domain"):
        ingot.load(other, trust=True)


def test_what_is_looked_at_is_what_is_loaded(archive, ours, tmp_path, monkeypatch):
    """Another file under the name, between the look and the load, is none that anybody looked at."""
    from ingot import exported

    file = compiled(archive, tmp_path / "m.ingot", "--sign", home=ours.home)
    verify = exported._verify

    def then_replaces(path, content, trust):
        verify(path, content, trust)
        pathlib.Path(path).write_bytes(b"INGOTEXP" + b"\0" * 100)

    monkeypatch.setattr(exported, "_verify", then_replaces)
    assert works(ingot.load(file, trust=True))


def test_the_signature_of_a_file_is_none_of_an_artifact(archive, ours, tmp_path):
    """`ingot trust check` judges envelopes of artifacts, which a daemon would serve."""
    file = compiled(archive, tmp_path / "m.ingot", "--sign", home=ours.home)
    done = run("trust", "check", f"{file}.sig", "--artifact", file, home=ours.home, check=False)
    assert done.returncode != 0 and b"bad_signature" in done.stderr


def test_a_key_that_others_can_read_signs_nothing(archive, ours, tmp_path):
    file = compiled(archive, tmp_path / "m.ingot", home=ours.home)
    ours.key.chmod(0o644)
    assert run("sign", file, home=ours.home, check=False).returncode != 0
    done = run("compile", archive, "-o", tmp_path / "n.ingot", "--sign", home=ours.home, check=False)
    assert done.returncode != 0 and not (tmp_path / "n.ingot").exists() and not (tmp_path / "n.ingot.sig").exists()


# --- weights that are not in the file ---------------------------------------------------------------

@pytest.fixture
def elsewhere(ingot, tmp_path):
    """An exported file whose weights are in the safetensors file of that path."""
    def make(weights):
        from safetensors.torch import save_file

        linear = Block().eval()
        weights.parent.mkdir(exist_ok=True)
        save_file({name: value.detach() for name, value in linear.state_dict().items()}, weights)
        step = ingot.compile(linear, wait=True)
        with torch.no_grad():
            for _ in range(2):
                step(torch.zeros(2, 4))
        (tmp_path / "files").mkdir(exist_ok=True)
        step.export(tmp_path / "files" / "f.ingot", weights=weights)
        return tmp_path / "files" / "f.ingot"
    return make


def test_weights_lie_beside_the_file(ingot, elsewhere, tmp_path):
    file = elsewhere(tmp_path / "other" / "w.safetensors")
    with pytest.raises(ingot.Invalid, match="w.safetensors', outside of the file's folder"):
        ingot.load(file)
    with torch.no_grad():
        assert works(ingot.load(file, weights="anywhere"))
        inside = elsewhere(tmp_path / "files" / "w.safetensors")
        assert works(ingot.load(inside))
    with pytest.raises(ingot.Invalid, match="weights='here'"):
        ingot.load(inside, weights="here")


@pytest.mark.parametrize("place", ("../other/w.safetensors", "sub/../../other/w.safetensors"))
def test_weights_do_not_climb(ingot, elsewhere, tmp_path, place):
    file = elsewhere(tmp_path / "files" / "w.safetensors")
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "files" / "w.safetensors", tmp_path / "other")
    content = file.read_bytes()
    size, = struct.unpack("<Q", content[12:20])
    header = json.loads(content[52:52 + size])
    for weight in header["weights"]:
        weight["file"] = place
    text = json.dumps(header).encode()
    file.write_bytes(content[:12] + struct.pack("<Q", len(text)) + _native.digest_bytes(text).encode() + text + content[52 + size:])
    with pytest.raises(ingot.Invalid, match="outside of the file's folder"):
        ingot.load(file)


@pytest.mark.parametrize("kind", ("pipe", "device"))
def test_weights_are_a_file(ingot, elsewhere, tmp_path, kind):
    file = elsewhere(tmp_path / "files" / "w.safetensors")
    weights = tmp_path / "files" / "w.safetensors"
    weights.unlink()
    if kind == "pipe":
        os.mkfifo(weights)
    else:
        weights.symlink_to("/dev/zero")
    with pytest.raises(ingot.Invalid, match=f"is a {kind}, no file"):
        ingot.load(file)


def test_an_export_is_signed(ingot, ours, tmp_path):
    step = ingot.compile(Block().eval(), wait=True)
    with torch.no_grad():
        for _ in range(2):
            step(torch.zeros(2, 4))
        step.export(tmp_path / "f.ingot", sign=True)
        assert works(ingot.load(tmp_path / "f.ingot", trust=True))
        step.export(tmp_path / "g.ingot", sign=ours.key)
        assert works(ingot.load(tmp_path / "g.ingot", trust=ours.trust))
