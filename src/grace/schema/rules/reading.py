"""A recursive-descent parser of rules.

    rule       = sum ("<=" | "<" | ">=" | ">" | "=") sum
               | "if" conditions "then" conditions
               | name "follows" name
    conditions = condition {"and" condition}
    condition  = name ("==" | "!=" | "<=" | "<" | ">=" | ">") value  |  name "in" "(" value {"," value} ")"
    sum        = [-] term {(+ | -) term}
    term       = number | [number "*"] name ["/" number] | name "*" number

Names that are not plain words are in `backticks`, text in 'quotes'; a category of one word needs none.
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
SMALLEST, LARGEST = 1e-60, 1e60  # absolute values of numbers, so that no product or quotient over- or underflows
COMPARISONS = ("<=", "<", ">=", ">", "=", "==")


class Token(NamedTuple):
    kind: str
    text: str


class _Parser:
    """The tokens of a rule, and a method for each nonterminal."""

    def __init__(self, text: str) -> None:
        self.text, self.position, self.tokens = text, 0, list[Token]()
        start, end = 0, len(text.rstrip())
        while start < end:
            match = TOKEN.match(text, start)
            if match is None or match.lastgroup is None:
                self.wrong(f"{text[start:].strip()[:12]!r} cannot be read")
            kind, token = match.lastgroup, match[match.lastgroup]
            if kind == "word" and token.lower() in WORDS:
                kind, token = "sign", token.lower()
            self.tokens.append(Token("word", token.strip("`")) if kind == "name" else Token(kind, token))
            start = match.end()

    def wrong(self, why: str) -> NoReturn:
        raise GraceError(
            f"rule {self.text!r}: {why}; write 'a <= b + 3', 'total = a + b', \"if a == 'x' then b > 0\" or "
            "'a follows b', with names that are not plain words in `backticks`"
        )

    @property
    def next(self) -> Token:
        return self.tokens[self.position] if self.position < len(self.tokens) else Token("end", "the end")

    def take(self, *signs: str) -> str:
        """Consumes and returns the next token if it is one of these signs; else empty."""
        if self.next.kind == "sign" and self.next.text in signs:
            self.position += 1
            return self.tokens[self.position - 1].text
        return ""

    def need(self, kind: str, what: str) -> str:
        """Consumes a token of this kind, or raises an error."""
        if self.next.kind != kind:
            self.wrong(f"{what} is expected, not {self.next.text!r}")
        self.position += 1
        return self.tokens[self.position - 1].text

    def must(self, *signs: str) -> str:
        """Consumes one of these signs, or raises an error."""
        sign = self.take(*signs)
        if not sign:
            self.wrong(f"{' or '.join(map(repr, signs))} is expected, not {self.next.text!r}")
        return sign

    def end(self) -> None:
        if self.next.kind != "end":
            self.wrong(f"nothing is expected behind it, but there is {self.next.text!r}")

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
        token = self.need("number", "a number")
        number = float(token)
        if number and not SMALLEST <= number <= LARGEST:
            self.wrong(f"the number {token[:12]!r} is not between {SMALLEST:g} and {LARGEST:g}")
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
    """The rule that a text states."""
    parser = _Parser(text)
    if parser.take("if"):
        when = parser.conditions()
        parser.must("then")
        rule: Rule = IfThen(when, parser.conditions())
    elif parser.tokens[1:2] == [Token("sign", "follows")]:
        feature = parser.need("word", "a feature")
        parser.take("follows")
        rule = Follows(feature, parser.need("word", "a feature"))
    else:
        rule = _comparison(parser)
    parser.end()
    if len(set(rule.features)) < (1 if isinstance(rule, IfThen) else 2):
        parser.wrong("it has to be about two features at least; for a single one give ranges")
    return rule


def _comparison(parser: _Parser) -> AtMost | Equal:
    """An inequality, or an equation solved for its first feature."""
    left = parser.sum()
    sign = parser.must(*COMPARISONS)
    right = parser.sum()
    if sign not in ("=", "=="):
        ends = (left, right) if sign[0] == "<" else (right, left)
        return AtMost(*ends, strict=len(sign) == 1)
    if len(left.terms) != 1 and len(right.terms) == 1:
        left, right = right, left
    difference = left.minus(right)
    if not difference.terms:
        parser.wrong("it says nothing")
    (name, factor), *rest = difference.terms
    return Equal(name, Sum(tuple((n, -c / factor) for n, c in rest), -difference.constant / factor))
