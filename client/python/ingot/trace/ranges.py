# SPDX-License-Identifier: Apache-2.0
"""The sizes for which torch.export proved a program, as guard text, and the sizes at which to try it.

A recording's integers are, by export's own symbolic shapes, polynomials of the input sizes up to some degree; a
template's are too. Two polynomials of that degree which agree on a principal lattice are equal everywhere, so
recordings at those few sizes prove the template for the whole range.
"""

import itertools
import typing

import torch

from ingot import _native

POINTS_MAX = 24
"""Most recordings that one proof may take."""
_TRIED_MAX = 512


class Unprovable(Exception):
    """Why no range is claimed; what recordings prove still counts."""


class Range(typing.NamedTuple):
    """``text``: guards over inputs, ``i0.size(1) >= 2``. ``points``: for each recording that proves it the sizes of
    all inputs; the first differs from the example in every symbol, the example itself is left out."""

    text: str
    degree: int
    points: "list[list[list[int]]]"


class _Symbols:
    """Export's symbols and where each is found: size ``dim`` of an input."""

    def __init__(self, shapes: "list[list[typing.Any]]", env: typing.Any) -> None:
        self._env = env
        self.shapes = [[self.expression(size) for size in shape] for shape in shapes]
        self.sources: "dict[typing.Any, tuple[int, int]]" = {}
        for number, shape in enumerate(self.shapes):
            for dim, size in enumerate(shape):
                if getattr(size, "is_Symbol", False):
                    self.sources.setdefault(size, (number, dim))

    def expression(self, size: typing.Any) -> typing.Any:
        if isinstance(size, int):
            return size
        return self._env.replace(size.node.expr if hasattr(size, "node") else size)

    def terms(self, expression: typing.Any) -> "list[tuple[int, list[typing.Any]]]":
        """(coefficient, symbols) of a polynomial; Unprovable for anything else."""
        import sympy  # type: ignore[import-untyped]

        value = sympy.expand(self._decided(expression))
        symbols = sorted(value.free_symbols, key=str)
        if any(symbol not in self.sources for symbol in symbols):
            raise Unprovable(f"{expression} has a symbol that is no size of an input")
        if not symbols:
            if not value.is_Integer:
                raise Unprovable(f"{expression} is no whole number")
            return [(int(value), [])]
        if not value.is_polynomial(*symbols):
            raise Unprovable(f"{expression} is no polynomial of input sizes")
        found = []
        for powers, coefficient in sympy.Poly(value, *symbols).terms():
            if not coefficient.is_Integer:
                raise Unprovable(f"{expression} has a fraction")
            found.append((int(coefficient), [s for s, power in zip(symbols, powers) for _ in range(power)]))
        return found

    def _decided(self, expression: typing.Any) -> typing.Any:
        """Min and Max, with which export writes strides, where the symbols' lower bounds decide them."""
        import sympy

        if not hasattr(expression, "atoms") or not any(type(e).__name__ in ("Min", "Max") for e in sympy.preorder_traversal(expression)):
            return expression
        lows = {symbol: int(self._env.var_to_range[symbol].lower) for symbol in expression.free_symbols}
        above = {symbol: sympy.Symbol(f"{symbol}_above", integer=True, nonnegative=True) for symbol in lows}
        shifted = expression.subs({symbol: above[symbol] + low for symbol, low in lows.items()})
        for kind, plain in (("Min", sympy.Min), ("Max", sympy.Max)):
            shifted = shifted.replace(lambda e, kind=kind: type(e).__name__ == kind, lambda e, plain=plain: plain(*e.args))
        return shifted.subs({above[symbol]: symbol - low for symbol, low in lows.items()})

    def text(self, expression: typing.Any, names: "typing.Callable[[typing.Any], str]") -> str:
        parts = ["*".join([str(abs(c)), *map(names, symbols)]) for c, symbols in self.terms(expression)]
        signs = ["-" if c < 0 else "+" for c, _ in self.terms(expression)]
        first = ("-" if signs[0] == "-" else "") + parts[0]
        return first + "".join(f" {sign} {part}" for sign, part in zip(signs[1:], parts[1:]))


_RELATIONS = {"Equality": "==", "Unequality": "!=", "GreaterThan": ">=", "LessThan": "<=", "StrictGreaterThan": ">", "StrictLessThan": "<"}
_Names = typing.Callable[[typing.Any], str]


def _side(expression: typing.Any, symbols: _Symbols, names: _Names) -> str:
    if type(expression).__name__ in ("Mod", "PythonMod"):
        value, divisor = expression.args
        if not divisor.is_Integer or int(divisor) < 1:
            raise Unprovable(f"{expression} divides by a size")
        return f"({symbols.text(value, names)}) % {int(divisor)}"
    return symbols.text(expression, names)


def _conditions(guard: typing.Any, symbols: _Symbols, names: _Names) -> "list[str]":
    """One of export's guards as guard text."""
    import sympy

    if guard == sympy.true:
        return []
    if isinstance(guard, sympy.And):
        return [text for part in guard.args for text in _conditions(part, symbols, names)]
    if isinstance(guard, sympy.Not):
        return _conditions(sympy.Not(guard.args[0], evaluate=True), symbols, names) if guard.args[0].is_Relational else _give_up(guard)
    relation = _RELATIONS.get(type(guard).__name__)
    if relation is None:
        return _give_up(guard)
    left, right = guard.args
    return [f"{_side(left, symbols, names)} {relation} {_side(right, symbols, names)}"]


def _give_up(guard: typing.Any) -> "list[str]":
    raise Unprovable(f"export's guard {guard} cannot be written as a range")


def _bounds(env: typing.Any, symbols: _Symbols, names: _Names) -> "list[str]":
    """What export knows of each symbol's values; a replaced symbol's bounds are those of its replacement."""
    import sympy

    found = []
    for symbol, bounds in env.var_to_range.items():
        expression = env.replace(symbol)
        if not expression.free_symbols or not expression.free_symbols <= set(symbols.sources):
            if expression.free_symbols:
                raise Unprovable(f"{symbol} is no size of an input")
            continue
        text = symbols.text(expression, names)
        for bound, relation in ((bounds.lower, ">="), (bounds.upper, "<=")):
            if isinstance(bound, (int, sympy.Integer)) and abs(int(bound)) < 1 << 53:
                found.append(f"{text} {relation} {int(bound)}")
    return found


def _degree(program: typing.Any, symbols: _Symbols) -> int:
    """The highest degree of any integer in the exported graph; Unprovable where one is no polynomial."""
    degree = 1
    for node in program.graph.nodes:
        if node.op == "output" or not node.users:
            continue
        for leaf in torch.utils._pytree.tree_leaves(node.meta.get("val")):
            numbers: "list[typing.Any]" = [leaf]
            if isinstance(leaf, torch.Tensor):
                numbers = [*leaf.shape, *leaf.stride(), leaf.storage_offset()]
            for number in numbers:
                if isinstance(number, torch.SymFloat):
                    raise Unprovable(f"{number} is a fraction computed from sizes")
                if isinstance(number, torch.SymBool) and not all("assert" in str(user.target) for user in node.users):
                    raise Unprovable(f"{number} is a decision inside the graph")
                if isinstance(number, torch.SymInt):
                    terms = symbols.terms(symbols.expression(number))
                    degree = max(degree, *(len(factors) for _, factors in terms))
    return degree


class _Conditions:
    """What one exported program says of the sizes of its inputs."""

    def __init__(self, program: typing.Any) -> None:
        inputs = set(program.graph_signature.user_inputs)
        shapes = [list(node.meta["val"].shape) for node in program.graph.nodes if node.op == "placeholder" and node.name in inputs]
        sizes = [size for shape in shapes for size in shape if isinstance(size, torch.SymInt)]
        self._env = sizes[0].node.shape_env if sizes else None
        if self._env is not None and self._env.deferred_runtime_asserts:
            raise Unprovable("sizes depend on data")
        self.symbols = _Symbols(shapes, self._env)
        self.degree = _degree(program, self.symbols) if sizes else 1

    def text(self, name: "typing.Callable[[tuple[int, int]], str]") -> "list[str]":
        """Guard text in which size (input, dim) has this name."""
        if self._env is None:
            return []
        sources = self.symbols.sources

        def names(symbol: typing.Any) -> str:
            return name(sources[symbol])

        found = _bounds(self._env, self.symbols, names)
        for guard in self._env.guards:
            found += _conditions(self._env.replace(guard.expr), self.symbols, names)
        return found

    def ties(self) -> "list[str]":
        """Sizes that are numbers or follow from others."""
        sources = self.symbols.sources

        def names(symbol: typing.Any) -> str:
            return _at_input(sources[symbol])

        return [f"{_at_input((number, dim))} == {self.symbols.text(size, names)}" for number, shape in enumerate(self.symbols.shapes)
                for dim, size in enumerate(shape) if sources.get(size) != (number, dim)]


def _at_input(source: "tuple[int, int]") -> str:
    return f"i{source[0]}.size({source[1]})"


def of_programs(programs: "list[typing.Any]", tensors: "list[torch.Tensor]") -> "Range | None":
    """The range of an exported program whose user inputs are ``tensors``; None: it has no symbolic size.

    Of several forms of one program (before and after a decomposition) all conditions count and the last is what runs.
    Unprovable says which guard or integer cannot be expressed.
    """
    forms = [_Conditions(program) for program in programs]
    symbols = forms[-1].symbols
    if not symbols.sources:
        return None
    order = list(symbols.sources.values())

    def as_symbol(source: "tuple[int, int]") -> str:
        if source not in order:
            raise Unprovable(f"{_at_input(source)} is a number after decomposing")
        return f"s{order.index(source)}"

    claim = [text for form in forms for text in (*form.text(_at_input), *form.ties())]
    guards = _native.GuardSet.parse(" and ".join(dict.fromkeys(text for form in forms for text in form.text(as_symbol))))
    degree = max(form.degree for form in forms)
    example = [int(tensors[number].shape[dim]) for number, dim in order]
    points = [[_sizes(shape, list(symbols.sources), point) for shape in symbols.shapes] for point in _lattice(example, degree, guards)]
    return Range(" and ".join(dict.fromkeys(claim)), degree, points)


def _sizes(shape: "list[typing.Any]", order: "list[typing.Any]", point: "tuple[int, ...]") -> "list[int]":
    values = dict(zip(order, point))
    return [size if isinstance(size, int) else int(size.subs(values)) for size in shape]


def _lattice(example: "list[int]", degree: int, guards: typing.Any) -> "list[tuple[int, ...]]":
    """Points that determine a polynomial of the degree in all symbols, the example among them; first one that differs
    in every symbol, so that two recordings show what depends on what. All of them hold the guards."""
    count = len(example)
    indices = [at for at in itertools.product(range(degree + 1), repeat=count) if 0 < sum(at) <= degree]
    ones = (1,) * count
    indices = [ones] + [at for at in indices if at != ones]
    if len(indices) > POINTS_MAX:
        raise Unprovable(f"{count} symbols up to degree {degree} would take {len(indices)} recordings, at most {POINTS_MAX}")
    for candidates in _candidates(example, degree, guards):
        axes = [[value, *more] for value, more in zip(example, candidates)]
        points = [tuple(axis[i] for axis, i in zip(axes, at)) for at in indices]
        if all(guards.holds(list(point)) for point in points):
            return points
    raise Unprovable(f"found no {len(indices)} sizes to try around {example} under {guards}")


def _candidates(example: "list[int]", degree: int, guards: typing.Any) -> "typing.Iterator[list[list[int]]]":
    """For each symbol ``degree`` other values: small ones first, which are cheap to try, then near ones."""
    fitting: "list[list[int]]" = []
    for axis, value in enumerate(example):
        near = [value + step * sign for step in range(1, _TRIED_MAX) for sign in (1, -1)]
        fitting.append([tried for tried in near if tried >= 0 and guards.holds([*example[:axis], tried, *example[axis + 1:]])])
    for order in (sorted, list):
        for shift in range(3):
            # Symbols that change alike could stand for each other: each starts somewhere else.
            yield [order(values)[axis * shift:][:degree] for axis, values in enumerate(fitting)]
    # Symbols tied to each other by an inequality: all move together.
    yield [[value + (i + 1) * (axis + 1) for i in range(degree)] for axis, value in enumerate(example)]


def resized(tensor: torch.Tensor, sizes: "list[int]") -> "torch.Tensor | None":
    """A tensor of other sizes with this one's elements, repeated or left out, and its order of strides; None where this
    one is not dense (expanded, a window), so that other sizes would not say what their strides are."""
    order = sorted(range(tensor.dim()), key=lambda d: (tensor.stride(d), tensor.shape[d] == 1), reverse=True)
    dense = tensor.permute(order)
    if not dense.is_contiguous():
        return None
    for dim, source in enumerate(order):
        wanted, have = sizes[source], tensor.shape[source]
        if wanted != have:
            if have == 0:
                return None
            dense = dense.index_select(dim, torch.arange(wanted) % have)
    back = [order.index(d) for d in range(tensor.dim())]
    return dense.contiguous().clone().permute(back)
