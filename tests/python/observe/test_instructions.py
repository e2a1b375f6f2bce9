# SPDX-License-Identifier: Apache-2.0
"""What the observer sees of single instructions, which differ from one version of Python to the next; what it sees must not."""

import contextlib
import dataclasses
import opcode

import pytest
from ingot import _native


def test_every_opcode_of_this_python_has_an_entry():
    general = {name: number for name, number in opcode.opmap.items() if number < 256 and not name.startswith("INSTRUMENTED_")}
    specialized = set(getattr(opcode, "_specialized_opmap", getattr(opcode, "_specialized_instructions", ())))
    assert len(general) > 100
    assert [name for name, number in general.items() if name not in specialized and _native.instr_kind_of(number) == 0] == []


class Base:
    kind = "base"

    def word(self):
        return self.kind


class State(Base):
    def __init__(self):
        self.number, self.width = 3, 8
        self.table = {"a": 1, "b": 2}
        self.items = [1, 2, 3]
        self.pair = (4, 5)
        self.manager = Manager()
        self.point = Point(1, 2)

    def word(self):
        return super().word()

    def count(self):
        for i in range(self.number):
            yield i


class Manager:
    entered = 0

    def __enter__(self):
        return self.entered

    def __exit__(self, *exc):
        return True


@dataclasses.dataclass
class Point:
    x: int
    y: int


STATE = State()


def closure():
    inside = 7

    def read():
        return inside

    return read


READ = closure()


def keywords(*args, **kwargs):
    return args, kwargs


def matched():
    match STATE.point:
        case Point(x=1, y=y):
            return y
    return None


def unpacked():
    first, *rest = STATE.items
    return first, rest


def caught():
    with STATE.manager as entered:
        raise KeyError(entered)
    return STATE.number


def handled():
    try:
        return STATE.table["none"]
    except KeyError:
        return STATE.width
    finally:
        len(STATE.items)


def suppressed():
    with contextlib.suppress(ZeroDivisionError):
        1 / (STATE.number - 3)
    return STATE.width


def delegated():
    def outer():
        yield from STATE.count()

    return list(outer())


def branched():
    if STATE.table and not STATE.number:
        return 1
    return 2 if STATE.number > 2 else 3


def imported():
    from test_instructions import STATE as there

    return there.width


READS = {
    "attribute": (lambda: STATE.number, ["STATE.number"]),
    "method": (lambda: STATE.word(), ["State$word", "Base.word", "STATE.kind"]),
    "subscript": (lambda: STATE.table["a"], ['STATE.table["a"]']),
    "slice": (lambda: STATE.items[0:2], ["STATE.items"]),
    "contains": (lambda: "a" in STATE.table, ["STATE.table"]),
    "format": (lambda: f"{STATE.number!r:>{STATE.width}}", ["STATE.number", "STATE.width"]),
    "call": (lambda: keywords(STATE.number, wide=STATE.width), ["STATE.number", "STATE.width", "keywords!code"]),
    "expanded call": (lambda: keywords(*STATE.items, **STATE.table), ["STATE.items[2]", 'STATE.table["b"]']),
    "cell": (lambda: READ(), ["READ%inside"]),
    "generator": (lambda: list(STATE.count()), ["State$count", "STATE.number"]),
    "yield from": (delegated, ["State$count", "STATE.number"]),
    "comprehension": (lambda: [i + STATE.number for i in STATE.pair], ["STATE.pair", "STATE.number"]),
    "unpacking": (unpacked, ["STATE.items[0]", "STATE.items[2]"]),
    "match": (matched, ["STATE.point.x", "STATE.point.y"]),
    "with": (caught, ["Manager$__enter__", "Manager$__exit__", "Manager$entered", "STATE.number"]),
    "handler": (handled, ["STATE.width", "STATE.items!len"]),
    "suppressed": (suppressed, ["STATE.width"]),
    "branch": (branched, ["STATE.table!len", "STATE.number"]),
    "compare": (lambda: STATE.pair < (5,), ["STATE.pair"]),
    "identity": (lambda: STATE.pair is None, ["STATE.pair"]),
    "operator": (lambda: -STATE.number + STATE.width * 2, ["STATE.number", "STATE.width"]),
    "import": (imported, ["STATE.width"]),
}


def observed(function):
    observer = _native.Observer("/nowhere/")
    observer.add_root(function, "function:")
    observer.start(function, 100_000)
    try:
        answer = function()
    finally:
        observer.stop()
    return observer, answer


@pytest.mark.parametrize("name", READS)
def test_a_read_is_seen_through(name):
    function, wanted = READS[name]
    observer, answer = observed(function)
    assert observer.refused is None
    assert answer == function()
    observer.settle()
    places = [row[1] for row in observer.record([]).rows()]
    for place in wanted:
        assert any(found.startswith("test_instructions:" + place) for found in places), (place, places)


def test_writes_are_seen_in_order():
    def change():
        STATE.number = 5
        STATE.table["c"] = 3
        STATE.items += [4]
        STATE.items[0:1] = []
        del STATE.table["c"]
        STATE.number = 3

    observer, _ = observed(change)
    STATE.items[:] = [1, 2, 3]
    assert observer.refused is None
    assert [(write[1].rsplit(":", 1)[1], write[2]) for write in observer.writes()] == [
        ("STATE", "setattr"), ("STATE.table", "setitem"), ("STATE.items", "list.__iadd__"), ("STATE.items", "list.__setitem__"),
        ("STATE.table", "delitem"), ("STATE", "setattr")]


def test_nothing_is_seen_after_the_end_or_of_other_threads():
    import threading

    go, done = threading.Event(), threading.Event()

    def other():
        go.wait()
        _ = STATE.width
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    observer = _native.Observer("/nowhere/")
    go_set, done_wait, width = go.set, done.wait, "STATE.width"
    observer.start(keywords, 100_000)
    keywords()
    seen = observer.instructions
    observer.stop()
    go_set()
    done_wait()
    thread.join()
    _ = STATE.number
    assert 0 < seen == observer.instructions
    observer.settle()
    assert not any(width in row[1] for row in observer.record([]).rows())


def test_writes_outlive_a_refusal():
    import time

    def change():
        STATE.number = 5
        time.time()
        STATE.number = 3

    observer, _ = observed(change)
    assert observer.refused is not None and observer.refused[0] == "call"
    written, = observer.writes()
    assert written[0] is STATE and written[1].endswith(":STATE") and written[2] == "setattr" and "test_instructions.py:" in written[4]
