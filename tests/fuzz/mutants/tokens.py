# SPDX-License-Identifier: Apache-2.0
"""C++ as tokens with their places in the text: as much of the language as faults are planted by."""

import bisect
import re
import typing

_TOKEN = re.compile(r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
  | (?P<string>(?:u8|[uUL])?R"(?P<fence>[^()\s\\]*)\(.*?\)(?P=fence)"|(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+')
  | (?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<mark><=>|<<=|>>=|->\*|\.\.\.|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
""", re.VERBOSE | re.DOTALL | re.MULTILINE)
OPENS, CLOSES = {"(": ")", "[": "]", "{": "}"}, {")": "(", "]": "[", "}": "{"}


class Token(typing.NamedTuple):
    kind: str    # string, number, name or mark
    text: str
    start: int
    end: int


class Source:
    """The tokens of a text, which bracket belongs to which, and what lies in the body of a function."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.tokens = [Token(str(found.lastgroup if found.lastgroup != "fence" else "string"), found[0], found.start(), found.end())
                       for found in _TOKEN.finditer(text) if found["skip"] is None]
        self.partner: "dict[int, int]" = {}
        self.in_body: "list[bool]" = []
        self.is_body: "set[int]" = set()   # braces that open statements
        self.inner: "list[int]" = []       # the bracket that is nearest around each, -1 for none
        self.function: "list[int]" = []    # the outermost body around each, -1 for none
        self._match()

    def line_of(self, offset: int) -> int:
        """From 0."""
        return bisect.bisect_right(self._starts, offset) - 1

    def line_text(self, line: int) -> str:
        return self.text[self._starts[line]:].split("\n", 1)[0]

    def spaced(self, at: int) -> bool:
        """Whether a mark stands between spaces, as operators of two operands do and those of types do not."""
        token = self.tokens[at]
        return self.text[token.start - 1: token.start].isspace() and self.text[token.end: token.end + 1].isspace()

    def is_at(self, at: int, *texts: str) -> bool:
        return 0 <= at < len(self.tokens) and self.tokens[at].text in texts

    def arguments(self, opening: int) -> "list[tuple[int, int]]":
        """The first token of each argument between brackets, and the one behind its last."""
        found, first, at, end = [], opening + 1, opening + 1, self.partner[opening]
        while at < end:
            if self.tokens[at].text == ",":
                found.append((first, at))
                first = at + 1
            at = self.partner[at] + 1 if self.tokens[at].text in OPENS and at in self.partner else at + 1
        return [*found, (first, end)] if first < end else found

    def _match(self) -> None:
        open_: "list[int]" = []
        for at, token in enumerate(self.tokens):
            if token.kind == "mark" and token.text in CLOSES and open_ and self.tokens[open_[-1]].text == CLOSES[token.text]:
                self.partner[at] = open_.pop()
                self.partner[self.partner[at]] = at
            self.function.append(next((one for one in open_ if one in self.is_body), -1))
            self.in_body.append(self.function[-1] >= 0)
            self.inner.append(open_[-1] if open_ else -1)
            if token.kind == "mark" and token.text in OPENS:
                if token.text == "{" and self._opens_body(at):
                    self.is_body.add(at)
                open_.append(at)

    def _opens_body(self, at: int) -> bool:
        before = at - 1
        # `) const noexcept {`, `) -> Type {`
        while before >= 0 and (self.tokens[before].kind == "name" or self.tokens[before].text in ("::", "->", "*", "&", "<", ">", "&&")):
            if self.tokens[before].text in ("else", "do", "try"):
                return True
            if self.tokens[before].text in ("namespace", "class", "struct", "enum", "union", "return", "extern"):
                return False
            before -= 1
        if not self.is_at(before, ")"):
            if self.is_at(at - 1, ":") and any(self.is_at(one, "case", "default") for one in range(at - 8, at)):
                return True
            # A lambda without arguments; otherwise values between braces, unless a block of its own.
            return self.is_at(before, "]") or (self.is_at(at - 1, ";", "{", "}") and any(one in self.is_body for one in self._around(at)))
        return True

    def _around(self, at: int) -> "list[int]":
        return [one for one in self.is_body if one < at and one not in self.partner]
