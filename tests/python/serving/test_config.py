# SPDX-License-Identifier: Apache-2.0
"""Where settings come from, and which wins."""

import copy
import dataclasses
import json
import pathlib
import pickle
import subprocess

import pytest
import torch
from conftest import BIN


@pytest.fixture
def resolve(ingot):
    from ingot import config

    return config.resolve


def test_a_config_adds_to_the_environment(ingot, resolve, monkeypatch, tmp_path):
    (tmp_path / "ingot.toml").write_text('on_miss = "eager"\nguards = "first"\nvariants_max = 3\n[gears]\nspecialize = false\n')
    monkeypatch.setenv("INGOT_CONFIG", str(tmp_path / "ingot.toml"))
    monkeypatch.setenv("INGOT_VERIFY", "sample:7")
    monkeypatch.setenv("INGOT_WAIT", "1")
    monkeypatch.setenv("INGOT_STORE_DIR", "/from/environment")
    for given in (ingot.Config(guards="skip", gears=ingot.Gears(merge="product")), {"guards": "skip", "gears": {"merge": "product"}}):
        found = resolve(given, variants_max=5)
        assert (found.on_miss, found.guards, found.variants_max, found.verify, found.wait) == ("eager", "skip", 5, "sample:7", True)
        assert found.gears == ingot.Gears("product", specialize=False) and found.store_dir == "/from/environment"
    assert resolve(ingot.Config(wait=False)).wait is False, "what is said wins, also where it is the default"
    assert resolve(ingot.Config(store_dir="/mine")).store_dir == "/mine"
    assert resolve(None).verify == "sample:7" and ingot.compile(lambda x: x, config=ingot.Config()).config.verify == "sample:7"
    monkeypatch.setenv("INGOT_VERIFY", "often")
    with pytest.raises(ingot.Invalid, match="INGOT_VERIFY: verify='often'"):
        resolve(ingot.Config())


def test_fields_can_be_assigned_before_the_first_use(ingot, resolve):
    config = ingot.Config()
    config.gears.merge = "product"
    config.wait = True
    found = ingot.compile(lambda x: x, config=config).config
    assert found.gears.merge == "product" and found.wait is True
    for change in (lambda: setattr(config, "wait", False), lambda: setattr(config.gears, "merge", "zip"),
                   lambda: setattr(found, "wait", False)):
        with pytest.raises(ingot.Invalid, match="in use"):
            change()
    other = dataclasses.replace(config, guards="first")
    other.wait = False
    assert resolve(other).guards == "first" and resolve(config).wait is True and resolve(other).wait is False
    twin = copy.deepcopy(config)
    twin.gears.merge = "zip"
    assert config.gears.merge == "product" and pickle.loads(pickle.dumps(config)) == config


def test_a_replaced_config_hides_no_more_than_it_says(ingot, resolve, monkeypatch):
    monkeypatch.setenv("INGOT_VERIFY", "sample:7")
    assert resolve(dataclasses.replace(ingot.Config(), wait=True)).verify == "sample:7"


@pytest.mark.parametrize("name,value", [("wiat", True), ("wait", 1), ("guards", "sometimes"), ("variants_max", -1), ("variants_max", True),
                                        ("on_miss", "perhaps"), ("verify", "sample:0"), ("gears", "zip"), ("store_dir", 3),
                                        ("dynamic", "yes"), ("tp_rank", -1), ("global_rank", "0")])
def test_wrong_values_are_refused_where_they_are_set(ingot, name, value):
    config = ingot.Config()
    with pytest.raises(ingot.Invalid, match=name):
        setattr(config, name, value)
    with pytest.raises(ingot.Invalid, match=name):
        ingot.compile(lambda x: x, config={name: value})
    assert config == ingot.Config()


@pytest.mark.parametrize("name", ["INGOT_WAIT", "INGOT_REQUIRE_CACHED", "INGOT_DISABLE"])
def test_a_switch_says_yes_or_no(ingot, resolve, monkeypatch, name):
    field = {"INGOT_WAIT": "wait", "INGOT_REQUIRE_CACHED": "require_cached"}.get(name)
    for value, meant in (("1", True), ("Yes", True), ("on", True), ("true", True), ("", False), ("0", False), ("off", False), ("False", False)):
        monkeypatch.setenv(name, value)
        resolved = resolve(None)
        assert (getattr(resolved, field) if field else configuration().disabled()) is meant, value
    monkeypatch.setenv(name, "banana")
    with pytest.raises(ingot.Invalid, match=f"{name}='banana': expected one of 1, true, yes, on or one of 0, false, no, off"):
        ingot.compile(lambda x: x)


def test_a_switch_that_turns_bad_stops_no_call(ingot, monkeypatch):
    step = ingot.compile(lambda x: x * 2)
    monkeypatch.setenv("INGOT_DISABLE", "banana")
    assert step(torch.ones(2)).tolist() == [2, 2]


def configuration():
    from ingot import config

    return config


def test_a_mistake_in_a_file_names_its_line(ingot, resolve, monkeypatch, tmp_path):
    path = tmp_path / "ingot.toml"
    monkeypatch.setenv("INGOT_CONFIG", str(path))
    for text, said in (('# ours\nwait = true\nwaits = 3\n', "toml:3: unknown option 'waits'"), ('\nvariants_max = "3"\n', "toml:2: variants_max='3'"),
                       ('wait = true\n[gears]\nmarge = "zip"\n', "toml:2: unknown option 'gears.marge'"), ("wait = \n", "line 1")):
        path.write_text(text)
        with pytest.raises(ingot.Invalid, match=said):
            resolve(None)
    path.write_bytes(b"wait = '\xff'")
    with pytest.raises(ingot.Invalid, match="no UTF-8"):
        resolve(None)


def test_a_place_is_the_same_for_client_daemon_and_command_line(ingot, resolve, monkeypatch, tmp_path):
    (tmp_path / "ingot.toml").write_text('[daemon]\nstore_dir = "/a/store"\n')
    monkeypatch.setenv("INGOT_CONFIG", str(tmp_path / "ingot.toml"))
    monkeypatch.delenv("INGOT_STORE_DIR")
    assert resolve(None).store_dir == "/a/store"
    said = json.loads(subprocess.run([str(BIN / "ingot"), "config", "--json"], capture_output=True, text=True, check=True).stdout)
    assert [(f["value"], f["source"]) for f in said["fields"] if f["name"] == "store_dir"] == [("/a/store", f"{tmp_path}/ingot.toml:2")]


def test_a_file_that_cannot_be_read_is_named(ingot, resolve, monkeypatch, tmp_path):
    monkeypatch.setenv("INGOT_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(ingot.NotFound, match="none.toml"):
        resolve(None)


def test_paths_can_be_paths(ingot, resolve, tmp_path):
    assert resolve(None, store_dir=pathlib.Path(tmp_path)).store_dir == str(tmp_path)


# -- a store or daemon that cannot be used ------------------------------------------------------------

UNUSABLE = """
import json, logging, os, sys, threading, torch, ingot
said, is_said = [], threading.Event()
handler = logging.Handler()
handler.emit = lambda record: (said.append(record.getMessage()), is_said.set())
logging.getLogger("ingot").addHandler(handler)
steps = [ingot.compile(lambda x: x * 2 + 1, wait=True), ingot.compile(lambda x: x * 3 - 1, wait=True)]
with torch.no_grad():
    for step in steps:
        for _ in range(3):
            y = step(torch.ones(3))
for step in steps:
    step.wait()
# The thread that connects says it, and calls wait for no word of it.
is_said.wait(float(os.environ.get("SAID_WITHIN_S", "0")))
print(json.dumps({"said": said, "y": y.tolist(), "native": ingot.stats()["native_calls"]}))
"""


def about_the_store(found):
    assert found["y"] == [2, 2, 2]
    return [text for text in found["said"] if "store" in text or "daemon" in text]


def test_a_store_that_is_a_file_is_said_once(store):
    store.path.write_text("a file where a directory should be")
    found = store.python(UNUSABLE, SAID_WITHIN_S="20")
    said = about_the_store(found)
    assert len(said) == 1 and str(store.path) in said[0] and "in memory only" in said[0] and "Not a directory" in said[0], said
    assert found["native"] > 0
    assert len(about_the_store(store.python(UNUSABLE, SAID_WITHIN_S="20"))) == 1, "a second process says it too"


def test_a_daemon_that_does_not_start_is_said_once(store):
    said = about_the_store(store.python(UNUSABLE, SAID_WITHIN_S="20", INGOT_SOCKET="/proc/none/ingot.sock"))
    assert len(said) == 1 and "/proc/none" in said[0], said
    said = about_the_store(store.python(UNUSABLE, SAID_WITHIN_S="20", INGOT_SOCKET="/tmp/" + "long" * 40))
    assert len(said) == 1 and "cannot be used" in said[0], said


def test_a_socket_name_that_is_taken_is_left_alone(store, tmp_path):
    taken = tmp_path / "notes.txt"
    taken.write_text("of the user")
    said = about_the_store(store.python(UNUSABLE, SAID_WITHIN_S="20", INGOT_SOCKET=str(taken)))
    assert len(said) == 1 and str(taken) in said[0] and "no socket" in said[0], said
    assert taken.read_text() == "of the user" and sorted(tmp_path.iterdir()) == [taken]


def test_names_without_a_folder_are_of_the_process_that_has_them(store, tmp_path):
    store.python(UNUSABLE, tmp_path, INGOT_STORE_DIR="own", INGOT_SOCKET="ingot.sock")
    env = {**store.env, "INGOT_STORE_DIR": "own", "INGOT_SOCKET": "ingot.sock"}
    done = subprocess.run([str(BIN / "ingot"), "daemon", "stop"], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "own").is_dir() and not pathlib.Path("/own").exists()


def test_a_usable_store_says_nothing(store):
    assert about_the_store(store.python(UNUSABLE)) == []
