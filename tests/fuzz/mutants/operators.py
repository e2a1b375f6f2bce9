# SPDX-License-Identifier: Apache-2.0
"""The faults: each operator gives the edits of a text that are of its kind."""

import re
import typing

from tokens import OPENS, Source


class Edit(typing.NamedTuple):
    operator: str
    start: int
    end: int
    text: str    # what stands there instead

    def apply(self, text: str) -> str:
        return text[: self.start] + self.text + text[self.end:]


Edits = typing.Iterator["tuple[int, int, str]"]
Operator = typing.Callable[[Source], Edits]
OPERATORS: "dict[str, Operator]" = {}
# Of what a line offers: a body that is left early is soon noticed.
WEIGHTS = {"early_return": 1, "statement_removed": 2}
WEIGHT = 4


def _operator(function: Operator) -> Operator:
    OPERATORS[function.__name__.strip("_")] = function
    return function


def edits(source: Source) -> "list[Edit]":
    return [Edit(name, *edit) for name, operator in OPERATORS.items() for edit in operator(source) if source.text[edit[0]: edit[1]] != edit[2]]


def _replaced(source: Source, words: "dict[str, tuple[str, ...]]", spaced: bool = False, bodies: bool = True) -> Edits:
    for at, token in enumerate(source.tokens):
        if token.kind != "string" and token.text in words and (source.in_body[at] or not bodies) and (not spaced or source.spaced(at)):
            for text in words[token.text]:
                yield token.start, token.end, text


@_operator
def comparison_loosened(source: Source) -> Edits:
    return _replaced(source, {"<": ("<=",), "<=": ("<",), ">": (">=",), ">=": (">",)}, spaced=True)


@_operator
def comparison_negated(source: Source) -> Edits:
    return _replaced(source, {"==": ("!=",), "!=": ("==",), "<": (">=",), ">": ("<=",)}, spaced=True)


@_operator
def arithmetic(source: Source) -> Edits:
    return _replaced(source, {"+": ("-",), "-": ("+",), "*": ("+",), "/": ("*",), "%": ("/",), "+=": ("-=",), "-=": ("+=",), "|": ("&",), "&": ("|",)}, spaced=True)


@_operator
def connective(source: Source) -> Edits:
    return _replaced(source, {"&&": ("||",), "||": ("&&",)}, spaced=True)


@_operator
def constant(source: Source) -> Edits:
    """Also outside of bodies, where tables and limits stand."""
    yield from _replaced(source, {"true": ("false",), "false": ("true",)}, bodies=False)
    for token in source.tokens:
        if token.kind == "number" and (found := re.fullmatch(r"(\d+)([uUlLzZ]*)", token.text)):
            value = int(found[1])
            for other in sorted({value + 1, max(value - 1, 0)} - {value}):
                yield token.start, token.end, f"{other}{found[2]}"


@_operator
def off_by_one(source: Source) -> Edits:
    """`+ 1` and `- 1` left out, and one more at an index."""
    for at, token in enumerate(source.tokens):
        if token.text in ("+", "-") and source.spaced(at) and source.in_body[at] and source.is_at(at + 1, "1"):
            yield source.tokens[at - 1].end, source.tokens[at + 1].end, ""
        if token.text == "[" and source.in_body[at] and at in source.partner and _is_index(source, at):
            end = source.tokens[source.partner[at]].start
            yield end, end, " + 1"


def _is_index(source: Source, at: int) -> bool:
    before = source.tokens[at - 1]
    return source.partner[at] > at + 1 and (before.kind == "name" or before.text in (")", "]")) and not source.is_at(at - 1, "return", "auto")


NAMES = {one: tuple(other for other in group if other != one) for group in (
    ("strides", "sizes"), ("stride", "size"), ("front", "back"), ("begin", "end"), ("first", "second"), ("min", "max"), ("Min", "Max"), ("any_of", "all_of"),
    ("rows", "columns"), ("row", "column"), ("inputs", "outputs"), ("lower", "upper"), ("left", "right"), ("args", "results"),
    ("reads", "writes"), ("floor", "ceil"), ("i", "j"), ("a", "b"), ("x", "y"), ("lo", "hi"), ("from", "to"), ("source", "target"))
    for one in group}
MEMBERS = {"strides", "sizes", "front", "back", "begin", "end", "first", "second", "min", "max", "Min", "Max", "any_of", "all_of", "inputs", "outputs", "args", "results",
           "lower", "upper", "floor", "ceil"}


@_operator
def swapped_name(source: Source) -> Edits:
    """Where the function has the other name as well, or a member or function may have it."""
    known: "dict[int, set[str]]" = {}
    for at, token in enumerate(source.tokens):
        if token.text not in NAMES or not source.in_body[at]:
            continue
        before = source.tokens[at - 1]
        if before.kind == "name" and before.text not in ("return", "co_return", "case") or before.text in (">", "*", "&") and not source.spaced(at - 1):
            continue   # Here it gets its name.
        body = source.function[at]
        if body not in known:
            known[body] = {one.text for one in source.tokens[body: source.partner.get(body, len(source.tokens))]}
        for text in NAMES[token.text]:
            if text in known[body] or text in MEMBERS and before.text in (".", "->", "::"):
                yield token.start, token.end, text


@_operator
def swapped_operands(source: Source) -> Edits:
    """Two arguments that follow each other, and the operands of what is not commutative."""
    text = source.text
    for at, token in enumerate(source.tokens):
        if token.text == "(" and source.in_body[at] and at in source.partner and source.tokens[at - 1].kind == "name":
            spans = [(source.tokens[first].start, source.tokens[end - 1].end) for first, end in source.arguments(at)]
            for (a, b), (c, d) in zip(spans, spans[1:]):
                if _unlike(text[a:b], text[c:d]):
                    continue
                yield a, d, text[c:d] + text[b:c] + text[a:b]
        if token.text in ("-", "/", "%", ">>") and source.spaced(at) and source.in_body[at]:
            left, right = source.tokens[at - 1], source.tokens[at + 1]
            if {left.kind, right.kind} <= {"name", "number"} and not source.is_at(at - 2, ".", "->", "::") and not source.is_at(at + 2, ".", "->", "(", "[", "::"):
                yield left.start, right.end, text[right.start:right.end] + text[left.end:right.start] + text[left.start:left.end]


def _unlike(one: str, other: str) -> bool:
    """Whether two arguments are of types that cannot stand for each other: closures, texts."""
    contexts = {"n", "graph", "graph_", "r", "env", "state"}
    return any(one.startswith(mark) != other.startswith(mark) for mark in ('"', "[", "{")) or one.startswith("[") or bool({one, other} & contexts)


@_operator
def swapped_index(source: Source) -> Edits:
    """Two indices of one line."""
    text, last = source.text, None
    for at, token in enumerate(source.tokens):
        if token.text != "[" or not source.in_body[at] or at not in source.partner or not _is_index(source, at):
            continue
        span = (token.end, source.tokens[source.partner[at]].start)
        if last is not None and last[1] < span[0] and source.line_of(last[0]) == source.line_of(span[1]):
            (a, b), (c, d) = last, span
            yield a, d, text[c:d] + text[b:c] + text[a:b]
        last = span


def _operand(source: Source, at: int, step: int) -> int:
    """The furthest token of the operand of a connective that lies in a direction."""
    stops = ("&&", "||", ",", ";", "?", ":", "=", "return", "co_return", "<<")
    at += step
    while 0 <= at < len(source.tokens) and source.tokens[at].text not in stops:
        if at in source.partner and (source.tokens[at].text in OPENS) != (step < 0):
            at = source.partner[at]
        elif at in source.partner or (source.tokens[at].text in ("{", "}")):
            break
        at += step
    return at - step


@_operator
def predicate_dropped(source: Source) -> Edits:
    """One side of `&&` or `||`, or a `!`."""
    for at, token in enumerate(source.tokens):
        if not source.in_body[at]:
            continue
        if token.text in ("&&", "||") and source.spaced(at):
            left, right = _operand(source, at, -1), _operand(source, at, 1)
            if left < at < right:
                yield source.tokens[left].start, source.tokens[at + 1].start, ""
                yield source.tokens[at - 1].end, source.tokens[right].end, ""
        if token.text == "!" and not source.is_at(at + 1, "="):
            yield token.start, token.end, ""


@_operator
def condition(source: Source) -> Edits:
    """A guard that is missing, always taken, or the other way round."""
    for at, token in enumerate(source.tokens):
        if token.text == "if" and source.in_body[at] and source.is_at(at + 1, "(") and at + 1 in source.partner:
            start, end = token.end + 2, source.tokens[source.partner[at + 1]].start
            # What is declared in a condition is needed behind it.
            kept = (source.text[start:end] + " ") if ";" in source.text[start:end] else ""
            if not kept and not re.search(r"[^=!<>]=[^=]", source.text[start:end]):
                yield start, end, "false"
                yield start, end, "true"
                yield start, end, f"!({source.text[start:end]})"
        if token.text == "?" and source.spaced(at) and source.in_body[at]:
            left = _operand(source, at, -1)
            yield source.tokens[left].start, source.tokens[at - 1].end, "true"
            yield source.tokens[left].start, source.tokens[at - 1].end, "false"


_SHARES = re.compile(r"(?i)alias|overlap|shar|inplace|overwrit|aliv|escape|touche|frozen|stale|moved|held")


@_operator
def alias_ignored(source: Source) -> Edits:
    """What asks whether memory is shared, or changes, is told that it is not."""
    for at, token in enumerate(source.tokens):
        if token.kind == "name" and _SHARES.search(token.text) and source.in_body[at] and source.is_at(at + 1, "(") and at + 1 in source.partner:
            first = at
            while source.is_at(first - 1, ".", "->", "::") and source.tokens[first - 2].kind == "name":
                first -= 2
            yield source.tokens[first].start, source.tokens[source.partner[at + 1]].end, "false"


def _statements(source: Source) -> "typing.Iterator[tuple[int, int]]":
    """First token and semicolon of the statements that begin behind another or a brace."""
    for at in range(1, len(source.tokens)):
        if source.inner[at] not in source.is_body or not source.is_at(at - 1, ";", "{", "}") or source.tokens[at].kind != "name":
            continue
        end = at
        while end < len(source.tokens) and not source.is_at(end, ";", "{", "}"):
            end = source.partner[end] + 1 if source.tokens[end].text in OPENS and end in source.partner else end + 1
        if source.is_at(end, ";"):
            yield at, end


def _declares(source: Source, first: int, end: int) -> bool:
    """Whether a statement gives something a name, without which the rest has no meaning."""
    for at in range(first, end):
        if source.is_at(at, "=", "("):
            return False
        if source.tokens[at + 1].kind == "name" and (source.tokens[at].kind == "name" or source.is_at(at, ">", "*", "&")):
            return True
    return False


KEPT = ("return", "co_return", "case", "default", "using", "break", "else", "public", "private", "static_assert", "goto")


@_operator
def statement_removed(source: Source) -> Edits:
    for first, end in _statements(source):
        if source.tokens[first].text not in KEPT and not _declares(source, first, end):
            yield source.tokens[first].start, source.tokens[end].end, "{}"


@_operator
def early_return(source: Source) -> Edits:
    """Nothing is returned, or what lies between two blocks and behind them is not done."""
    for first, end in _statements(source):
        if source.is_at(first, "return") and first + 1 < end and not source.is_at(first + 1, "{"):
            yield source.tokens[first].end, source.tokens[end].start, " {}"
        elif source.tokens[first].text not in KEPT and source.is_at(first - 1, "{", "}"):
            yield source.tokens[first].start, source.tokens[first].start, "return {}; " if _gives(source, first) else "return; "


def _gives(source: Source, at: int) -> bool:
    body = source.function[at]
    return any(source.tokens[one].text == "return" and not source.is_at(one + 1, ";") for one in range(body, source.partner.get(body, body)))


@_operator
def step_skipped(source: Source) -> Edits:
    """`continue` and `break` for each other."""
    return _replaced(source, {"continue": ("break",), "break": ("continue",)})
