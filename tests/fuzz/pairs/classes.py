# SPDX-License-Identifier: Apache-2.0
"""Lowering classes: rules of compiler/ops/ops.def that one function of the compiler lowers, of operands of the same kinds."""

import pathlib
import re
import typing

OPS = pathlib.Path(__file__).resolve().parents[3] / "compiler" / "ops" / "ops.def"
LINE = re.compile(r'^OP\("([^"]+)", (?:"((?:[^"\\]|\\.)*)"|kOwn), k\w+, k\w+(.*)\)$', re.MULTILINE)
# The facets by which an operator becomes part of a kernel, or of a view that one reads through.
FACETS = ("POINTWISE", "MOVE", "REDUCE", "SCAN", "CONTRACT", "CONV", "POOL", "QUANTIZE", "WRITE", "VIEW", "DECOMPOSE")


class Rule(typing.NamedTuple):
    """One operator under one of its facets: what works in place is another rule than the same operator's value."""

    op: str
    facet: str

    def __str__(self) -> str:
        return self.op if self.facet != "WRITE" else f"{self.op} in place"


def _function(rule: str) -> str:
    """``Unary<Op::kExp>`` is Unary. What only wraps another rule is that rule."""
    wrapped = re.fullmatch(r"Whole<(\w+)>", rule)
    return wrapped[1] if wrapped else rule.partition("<")[0]


def of_table() -> "dict[str, list[Rule]]":
    """Every class by its name, such as ``POINTWISE Unary(Tensor)``."""
    found: "dict[str, list[Rule]]" = {}
    for op, parameters, facets in LINE.findall(OPS.read_text()):
        kinds = [parameter.split()[0] for parameter in parameters.split(", ") if parameter]
        operands = ", ".join(kind for kind in kinds if kind.rstrip("?[]") in ("Tensor", "Scalar"))
        for facet, rule in re.findall(r"\b([A-Z]+)\(([^()]*)\)", facets):
            if facet in FACETS:
                found.setdefault(f"{facet} {_function(rule)}({operands})", []).append(Rule(op, facet))
    return found
