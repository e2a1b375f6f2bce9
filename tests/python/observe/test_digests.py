# SPDX-License-Identifier: Apache-2.0
"""Digests are functions of type and value: two are equal exactly where both are, whatever the texts, numbers and classes."""

import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import ipaddress
import math
import pathlib
import re
import struct
import uuid

import hypothesis
import hypothesis.strategies as st
import pytest
import torch


class Text(str):
    pass


class Raw(bytes):
    pass


class Int(int):
    pass


class Float(float):
    pass


class Items(list):
    pass


class Table(dict):
    pass


class Members(set):
    pass


class Pair(collections.namedtuple("Pair", "a b")):
    __slots__ = ()


class Held(tuple):
    pass


class Slots:
    __slots__ = ("a", "b")


class Plain:
    pass


@dataclasses.dataclass
class Options:
    a: object
    b: object = None


def exact(value):
    """What a value is, in terms that Python compares as this test wants them compared."""
    kind = type(value)
    if kind is float:
        return (kind, struct.pack("d", value))
    if kind is complex:
        return (kind, struct.pack("dd", value.real, value.imag))
    if kind in (bool, int, str, bytes, torch.dtype, torch.device) or value is None or value is ... or value is NotImplemented:
        return (kind, value)
    if isinstance(value, (type, enum.Enum)):
        return ("itself", value)
    if kind in (range, slice):
        return (kind, exact(value.start), exact(value.stop), exact(value.step))
    if isinstance(value, torch.Tensor):
        return (kind, value.dtype, value.shape, value.layout, value.requires_grad, value.is_conj(), value.is_neg(), value.is_inference(),
                value.stride() if value.layout is torch.strided else None, value.is_coalesced() if value.layout is torch.sparse_coo else None)
    inner = tuple((name, exact(held)) for name, held in getattr(value, "__dict__", {}).items())
    inner += tuple((name, exact(getattr(value, name))) for name in getattr(kind, "__slots__", ()) if name != "__weakref__" and hasattr(value, name))
    if isinstance(value, dict):
        return (kind, tuple((exact(k), exact(v)) for k, v in value.items()), exact(getattr(value, "default_factory", None)), inner)
    if isinstance(value, (set, frozenset)):
        return (kind, frozenset(collections.Counter(map(exact, value)).items()), inner)
    if isinstance(value, collections.deque):
        return (kind, value.maxlen, tuple(map(exact, value)), inner)
    if isinstance(value, (list, tuple)):
        return (kind, tuple(map(exact, value)), inner)
    for base in (int, float, str, bytes):
        if isinstance(value, base):
            return (kind, exact(base.__getnewargs__(value)[0]) if base is not float else struct.pack("d", value), inner)
    if isinstance(value, (decimal.Decimal, datetime.datetime, datetime.date, datetime.timedelta, pathlib.PurePath)):
        return (kind, *map(exact, copy.copy(value).__reduce_ex__(4)[1]))
    return (kind, inner)


TEXTS = st.text(st.sampled_from("a\0\udc80\udc81\ud800\udfff\xe9\u0101\U00010000"), max_size=3)
FLOATS = st.sampled_from([0.0, -0.0, 1.0, math.inf, *(struct.unpack("d", struct.pack("Q", bits))[0] for bits in
                                                       (0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001))])
# By their position: the largest have no decimal digits.
INTEGERS = st.integers(0, 8).map((0, 1, -1, 2**63 - 1, 2**63, -2**63 - 1, 10**5000, 10**5000 + 1, -10**5000).__getitem__)
ATOMS = st.one_of(
    st.sampled_from([None, ..., NotImplemented, True, False, torch.float32, torch.float64, torch.device("cpu")]), INTEGERS, FLOATS, TEXTS,
    st.binary(max_size=2), st.builds(complex, FLOATS, FLOATS), st.builds(range, INTEGERS, INTEGERS),
    st.builds(slice, st.one_of(st.none(), INTEGERS), st.one_of(st.none(), TEXTS)))
KEYS = st.one_of(INTEGERS, TEXTS, st.binary(max_size=2), st.sampled_from([None, True, 1.0, -0.0]), st.tuples(TEXTS), st.frozensets(TEXTS, max_size=2))


def with_attributes(kind, values):
    def made(value, attributes):
        one = kind(value)
        vars(one).update(attributes)
        return one
    return st.builds(made, values, st.dictionaries(TEXTS, ATOMS, max_size=2))


def slots(a, b):
    one = Slots()
    for name, value in (("a", a), ("b", b)):
        if value is not None:
            setattr(one, name, value)
    return one


OBJECTS = st.one_of(
    with_attributes(Text, TEXTS), with_attributes(Raw, st.binary(max_size=2)), with_attributes(Int, INTEGERS), with_attributes(Float, FLOATS),
    with_attributes(lambda _: Plain(), st.none()), st.builds(slots, ATOMS, ATOMS),
    st.sampled_from([decimal.Decimal("1"), decimal.Decimal("1.0"), decimal.Decimal("NaN1"), decimal.Decimal("-0")]),
    st.builds(fractions.Fraction, INTEGERS), st.builds(uuid.UUID, int=st.integers(0, 1)),
    st.builds(datetime.datetime, st.just(2000), st.just(1), st.just(1), fold=st.integers(0, 1),
              tzinfo=st.one_of(st.none(), st.builds(lambda name: datetime.timezone(datetime.timedelta(), name), TEXTS))),
    st.builds(pathlib.PurePosixPath, st.sampled_from(["a", "\udc80", "\udc81"])), st.integers(0, 2).map((int, Text, Plain).__getitem__))


def containers(values):
    lists = st.lists(values, max_size=3)
    tables = st.dictionaries(KEYS, values, max_size=3)
    return st.one_of(
        lists, lists.map(tuple), tables, lists.map(Items), lists.map(Held), tables.map(Table), tables.map(collections.OrderedDict),
        st.builds(collections.defaultdict, st.integers(0, 2).map((None, int, list).__getitem__), tables), st.sets(KEYS, max_size=3), st.frozensets(KEYS, max_size=3),
        st.builds(Members, st.sets(KEYS, max_size=3)), st.builds(collections.deque, lists, st.sampled_from([None, 3, 4])), st.builds(Pair, values, values),
        st.builds(Options, values, values))


VALUES = st.recursive(st.one_of(ATOMS, OBJECTS), containers, max_leaves=4)
PLAIN = st.recursive(ATOMS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple),
                                                    st.dictionaries(st.one_of(INTEGERS, TEXTS, st.binary(max_size=2), st.tuples(TEXTS)), inner, max_size=3)),
                     max_leaves=4)


def pairs(values):
    """Two drawn apart, and two of one value, one of them a copy."""
    return st.one_of(st.tuples(values, values), values.map(lambda value: (value, copy.deepcopy(value))))


def check(draws, count=800):
    """A property of what is drawn. Nothing is shrunk: values are small, and hypothesis cannot take apart subclasses of text."""
    settings = hypothesis.settings(max_examples=count, deadline=None, database=None, phases=[hypothesis.Phase.generate],
                                   suppress_health_check=list(hypothesis.HealthCheck))
    return lambda test: hypothesis.seed(0)(settings(hypothesis.given(draws)(test)))


@pytest.fixture(scope="module")
def native():
    from ingot import _native

    return _native


def test_digests_are_equal_exactly_where_values_are(native):
    @check(pairs(VALUES))
    def holds(pair):
        one, other = pair
        (digest, _, opaque), (of_other, _, _) = map(native.digest_value, pair)
        assert not opaque
        assert (digest == of_other) == (exact(one) == exact(other)), (one, other)

    holds()


def test_shapes_and_words_of_arguments_are_equal_exactly_where_they_are(native):
    from ingot.trace import keys

    plain = (bool, int, float, str, list, tuple, dict, torch.dtype, torch.device)

    def is_plain(value):
        inner = value if type(value) in (list, tuple) else value.values() if type(value) is dict else ()
        return (type(value) in plain or value is None) and all(map(is_plain, inner))

    @check(pairs(PLAIN.filter(is_plain)))
    def holds(pair):
        shapes = [native.flatten((value,), {}, (), ())[3] for value in pair]
        is_same = exact(pair[0]) == exact(pair[1])
        assert (shapes[0] == shapes[1]) == is_same, pair
        assert (keys.describe(pair[0]) == keys.describe(pair[1])) == is_same, pair

    holds()


def test_a_path_leads_back_to_its_key_and_to_no_other(native):
    @check(pairs(KEYS), 300)
    def holds(pair):
        table = {pair[0]: "found"}
        paths = [native.item_path("table", key) for key in pair]
        if paths[0] is not None:
            paths[0].encode()  # It is written to stores as UTF-8.
            assert native.resolve_path(paths[0], {"table": table}) == "found"
            assert (paths[0] == paths[1]) == (exact(pair[0]) == exact(pair[1]))

    holds()


def tensors():
    plain = torch.ones(2, 2)
    yield from (plain, plain.t(), torch.ones(2, 2, dtype=torch.float64), torch.ones(4), torch.ones(2, 2, requires_grad=True), torch.ones(4, 1)[:2],
                torch.ones(2, 2, dtype=torch.complex64), torch.ones(2, 2, dtype=torch.complex64).conj(),
                torch.ones(2, 2, dtype=torch.complex64).conj().imag, torch._efficientzerotensor((2, 2)), torch.nn.Parameter(plain))
    for size in ((4,), (7,), (4, 1)):
        yield torch.sparse_coo_tensor([[0]] * len(size), [1.0], size)
    yield torch.sparse_coo_tensor([[0]], torch.ones(1, 1), (4, 1))
    yield torch.sparse_coo_tensor([[0, 0]], [1.0, 1.0], (4,))
    yield from (torch.eye(size).to_sparse_csr() for size in (4, 7))
    yield from (torch.ones(size, 2).to_mkldnn() for size in (4, 7))
    yield torch.ones(2, 2, requires_grad=True) * 2
    with torch.inference_mode():
        of_inference = torch.ones(2, 2)
    yield of_inference


def test_of_tensors_all_that_is_known_counts(native):
    found = collections.defaultdict(list)
    for one, again in zip(tensors(), tensors()):
        digest = native.digest_value(one)[0]
        assert digest == native.digest_value(again)[0], one
        found[digest].append(one)
    assert all(len(alike) == 1 for alike in found.values()), [alike for alike in found.values() if len(alike) > 1]
    assert native.digest_value(torch.nested.nested_tensor([torch.ones(2)]))[2]  # Whose sizes nobody tells.


def test_what_cannot_be_told_equals_nothing(native):
    """Not even itself, so that no comparison passes by it."""
    def nested(kind, value):
        for _ in range(40):
            value = kind([value])
        return value

    address = ipaddress.ip_address("1.2.3.4")
    for value in (*(nested(kind, 3) for kind in (list, tuple, frozenset)), {nested(tuple, 3): 1}, {address}, {(address, 0): 1}, Options({address}), iter([])):
        (digest, _, opaque), (again, _, _) = native.digest_value(value), native.digest_value(value)
        assert opaque and digest != again, value


def test_code_whose_constants_cannot_be_told_equals_only_itself(native):
    def code(value):
        return compile("x = " + "(" * 28 + repr(value) + ",)" * 28, "", "exec")

    one, other = code(3), code(3)
    assert native.digest_code(one) == native.digest_code(one)
    assert len({native.digest_code(made) for made in (one, other, code(5))}) == 3


ROWS = re.findall(r'\{"([\w ]*)",\s*"([\w ]*)",\s*(?:true|false),\s*\w+\}',
                  (pathlib.Path(__file__).parents[3] / "client" / "native" / "places" / "tensor_facts.cpp").read_text())
ONE = torch.ones(3)
GETTERS, METHODS = (" ".join(column).split() for column in zip(*ROWS))


def outcome(call, x):
    try:
        return str(call(x))
    except (RuntimeError, NotImplementedError, TypeError, AttributeError) as error:
        return type(error)


@pytest.mark.parametrize("name", [*GETTERS, *METHODS])
def test_what_a_call_is_told_of_a_tensor_is_eagers(ingot, name):
    """Tensors that differ in a fact are arguments of different shapes, or of none."""
    function = (lambda x: (getattr(x, name), ONE + 1)) if name in GETTERS else (lambda x: (getattr(x, name)(), ONE + 1))
    step = ingot.compile(function, wait=True, config=ingot.Config(agree="off"))
    given = [*tensors(), torch.ones(2, 2).to("meta"), torch.quantize_per_tensor(torch.ones(2, 2), 1.0, 0, torch.qint8)]
    with torch.no_grad():
        for x in given[:1] + given + given[::-1]:
            assert outcome(step, x) == outcome(function, x), step.report()

