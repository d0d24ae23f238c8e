"""Reading rules.

    rule       = sum ("<=" | "<" | ">=" | ">" | "=") sum
               | "if" conditions "then" conditions
               | name "follows" name
    conditions = condition {"and" condition}
    condition  = name ("==" | "!=" | "<=" | "<" | ">=" | ">") value  |  name "in" "(" value {"," value} ")"
    sum        = [-] term {(+ | -) term}
    term       = number | [number "*"] name ["/" number] | name "*" number

A name that is not a plain word stands in `backticks`, text in 'quotes'; a category of one word needs none.
"""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from grace.errors import GraceError
from grace.schema.features import Value
from grace.schema.rules import WORDS, AtMost, Condition, Equal, Follows, IfThen, Rule, Sum

TOKEN = re.compile(
    r"\s*(?:(?P<name>`[^`]+`)|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<sign><=|>=|==|!=|[=<>+\-*/(),])|(?P<word>[^\W\d][\w.]*))"
)
SIGNS = ("==", "!=", "<=", "<", ">=", ">", "=")
SMALLEST, LARGEST = 1e-60, 1e60  # numbers of a rule, so that no product or quotient of two is 0 or infinite
COMPARED = ("<=", "<", ">=", ">", "=", "==")


class Token(NamedTuple):
    kind: str
    said: str


class _Reader:
    """A rule's text, token by token."""

    def __init__(self, text: str) -> None:
        self.text, self.place, self.tokens = text, 0, list[Token]()
        at, end = 0, len(text.rstrip())
        while at < end:
            found = TOKEN.match(text, at)
            if found is None or found.lastgroup is None:
                self.wrong(f"{text[at:].strip()[:12]!r} cannot be read")
            kind, said = found.lastgroup, found[found.lastgroup]
            if kind == "word" and said.lower() in WORDS:
                kind, said = "sign", said.lower()
            self.tokens.append(Token("word" if kind == "name" else kind, said.strip("`") if kind == "name" else said))
            at = found.end()

    def wrong(self, why: str) -> NoReturn:
        raise GraceError(
            f"rule {self.text!r}: {why}; write 'a <= b + 3', 'total = a + b', \"if a == 'x' then b > 0\" or "
            "'a follows b', with names that are not plain words in `backticks`"
        )

    @property
    def next(self) -> Token:
        return self.tokens[self.place] if self.place < len(self.tokens) else Token("end", "the end")

    def take(self, *signs: str) -> str:
        """The next token if it is one of these signs, else empty."""
        if self.next.kind == "sign" and self.next.said in signs:
            self.place += 1
            return self.tokens[self.place - 1].said
        return ""

    def need(self, kind: str, what: str) -> str:
        if self.next.kind != kind:
            self.wrong(f"{what} is expected, not {self.next.said!r}")
        self.place += 1
        return self.tokens[self.place - 1].said

    def must(self, *signs: str) -> str:
        found = self.take(*signs)
        if not found:
            self.wrong(f"{' or '.join(map(repr, signs))} is expected, not {self.next.said!r}")
        return found

    def end(self) -> None:
        if self.next.kind != "end":
            self.wrong(f"nothing is expected behind it, but there is {self.next.said!r}")

    def sum(self) -> Sum:
        terms: list[tuple[str, float]] = []
        constant, sign = 0.0, -1.0 if self.take("-") else 1.0
        while True:
            factor = self.number() if self.next.kind == "number" else None
            if factor is not None and not self.take("*"):
                constant += sign * factor
            else:
                name = self.need("word", "a feature")
                if factor is None and self.take("*"):
                    factor = self.number()
                below = self.number() if self.take("/") else 1.0
                if below == 0:
                    self.wrong("it divides by 0")
                terms.append((name, sign * (1.0 if factor is None else factor) / below))
            more = self.take("+", "-")
            if not more:
                return Sum(tuple(terms), constant)
            sign = -1.0 if more == "-" else 1.0

    def number(self) -> float:
        said = self.need("number", "a number")
        number = float(said)
        if number and not SMALLEST <= number <= LARGEST:
            self.wrong(f"the number {said[:12]!r} is not between {SMALLEST:g} and {LARGEST:g}")
        return number

    def value(self) -> Value:
        if word := self.take("true", "false"):
            return word == "true"
        sign = -1.0 if self.take("-") else 1.0
        if self.next.kind == "number" or sign < 0:
            number = sign * self.number()
            return int(number) if number.is_integer() else number
        if self.next.kind == "text":
            return re.sub(r"\\(.)", r"\1", self.need("text", "text")[1:-1])
        return self.need("word", "a value")

    def conditions(self) -> tuple[Condition, ...]:
        out = [self.condition()]
        while self.take("and"):
            out.append(self.condition())
        return tuple(out)

    def condition(self) -> Condition:
        name = self.need("word", "a feature")
        if self.take("in"):
            self.must("(")
            values = [self.value()]
            while self.take(","):
                values.append(self.value())
            self.must(")")
            return Condition(name, "in", tuple(values))
        sign = self.must("in", *SIGNS)
        return Condition(name, "==" if sign == "=" else sign, (self.value(),))


def read(text: str) -> Rule:
    """The rule that a text says."""
    reader = _Reader(text)
    if reader.take("if"):
        when = reader.conditions()
        reader.must("then")
        rule: Rule = IfThen(when, reader.conditions())
    elif reader.tokens[1:2] == [Token("sign", "follows")]:
        feature = reader.need("word", "a feature")
        reader.take("follows")
        rule = Follows(feature, reader.need("word", "a feature"))
    else:
        rule = _compared(reader)
    reader.end()
    if len(set(rule.features)) < (1 if isinstance(rule, IfThen) else 2):
        reader.wrong("it has to be about two features at least; for a single one give ranges")
    return rule


def _compared(reader: _Reader) -> AtMost | Equal:
    left = reader.sum()
    sign = reader.must(*COMPARED)
    right = reader.sum()
    if sign not in ("=", "=="):
        ends = (left, right) if sign[0] == "<" else (right, left)
        return AtMost(*ends, strict=len(sign) == 1)
    if len(left.terms) != 1 and len(right.terms) == 1:
        left, right = right, left
    apart = left.minus(right)
    if not apart.terms:
        reader.wrong("it says nothing")
    (name, factor), *rest = apart.terms
    return Equal(name, Sum(tuple((n, -c / factor) for n, c in rest), -apart.constant / factor))
