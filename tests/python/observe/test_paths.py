# SPDX-License-Identifier: Apache-2.0
"""Paths and records are read from a store: whatever their bytes say, they lead somewhere or nowhere, and run no code."""

import collections
import functools
import sys

import pytest
import torch


class Holder:
    """What the paths below lead into; its own code would say so if it ran."""

    __slots__ = ("__dict__", "slot")

    def __getattr__(self, name):
        raise AssertionError("a path ran code")


@pytest.fixture
def roots():
    holder = Holder()
    holder.slot = 7
    holder.scale = 2.0
    holder.table = {"a": [1, (2, 3)], 4: None, b"raw": True, "with \"quotes\"]": 1, ("a", 1): 5}
    holder.order = collections.OrderedDict(x=1)
    holder.weight = torch.ones(2)

    def function(x):
        return x * holder.scale

    return {"self": holder, "function": function, "object:0": [holder]}


PATHS = {
    'self.scale': 2.0, 'self~slot': 7, 'self.table["a"][0]': 1, 'self.table["a"][1][1]': 3, 'self.table[4]': None,
    'self.table[b"raw"]': True, 'self.table["with \\"quotes\\"]"]': 1, 'self.table#4': 5, 'self.table@4': ("a", 1),
    'self.order["x"]': 1, 'object:0[0].scale': 2.0, 'function%holder.scale': 2.0, 'self!dict["scale"]': 2.0,
    'collections:OrderedDict': collections.OrderedDict, 'torch.nn:Module$forward': torch.nn.Module.forward,
    'test_paths:Holder': Holder, 'test_paths:cached(3])': 9, 'sys:getrecursionlimit()': sys.getrecursionlimit(),
}


@functools.lru_cache
def cached(x):
    return x * x


cached(3)


def called(*args):
    raise AssertionError("a path called a function")


def test_a_path_asks_cached_functions_and_settings_only(ingot, roots):
    from ingot import _native

    cached.cache_clear()
    assert _native.resolve_path("test_paths:cached(3])", roots) is None  # It would run for nobody who called it.
    assert cached(3) == 9 == _native.resolve_path("test_paths:cached(3])", roots)
    for path in ("test_paths:called()", "test_paths:called(3])", "os:getcwd()", "self.scale()", "test_paths:Holder()"):
        assert _native.resolve_path(path, roots) is None, path


@pytest.mark.parametrize("path", PATHS)
def test_a_path_leads_to_what_lies_there(ingot, roots, path):
    from ingot import _native

    assert _native.resolve_path(path, roots) == PATHS[path]


@pytest.mark.parametrize("path", PATHS)
def test_damaged_paths_lead_nowhere_or_somewhere_else(ingot, roots, path):
    from ingot import _native

    damaged = [path[:n] for n in range(len(path))]
    damaged += [path[:i] + chr(ord(c) ^ (1 << bit)) + path[i + 1:] for i, c in enumerate(path) for bit in range(7)]
    damaged += [path + tail for tail in ("", ".", "[", "!", "$", "~", "%", "@", "#", "(", "[99999999999999999999]", '["', "[b", "!len!len")]
    found = 0
    for one in damaged:
        found += _native.resolve_path(one, roots) is not None
        record = _native.DependencyRecord([("attribute", one, "0" * 32, "text")])
        assert _native.check_record(record, roots, None) is not None, one
    assert found < len(damaged)


def test_a_record_is_sorted_and_says_each_place_once(ingot, roots):
    from ingot import _native

    rows = [("attribute", "self.scale", "1" * 32, "b"), ("item", 'self.table["a"]', "2" * 32, ""), ("attribute", "self.scale", "1" * 32, "b")]
    record = _native.DependencyRecord(rows)
    assert [row[1] for row in record.rows()] == ["self.scale", 'self.table["a"]'] and len(record) == 2
    assert record == _native.DependencyRecord(list(reversed(rows))) and record != _native.DependencyRecord(rows[:1])
    with pytest.raises(Exception):
        _native.DependencyRecord([("attribute", "self.scale", "no digest", "")])
