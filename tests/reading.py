"""Reading a sentence back: which features it moves, to which values, and which class it promises."""

from __future__ import annotations

import re
from decimal import Decimal

from grace import Categorical, Explanation, Numeric, Schema

NUMBER = r"(\N{MINUS SIGN}?[\d,]*\.?\d+)"


def read(sentence: str, e: Explanation, schema: Schema) -> tuple[dict[str, object], str]:
    """The row that a reader would type in, from the original row and the words alone, and the class."""
    body, rest = re.fullmatch(r"Had (.*), the model would have (.*)\.", sentence).groups()
    row = dict(e.row)
    for before, after in _clauses(body, schema):
        row.update(after(row[before]))
    for label in schema.classes or e.classes:
        said = schema.verb.format(**{"row": schema.row, "class": schema.class_word(label)})
        if rest == f"{said} rather than {schema.class_word(e.original_class)}":
            return row, label
    raise AssertionError(f"no class in {rest!r}")


def _clauses(body: str, schema: Schema):
    while body:
        for feature in sorted(schema.features, key=lambda f: -len(_phrase(f))):
            start = re.match(re.escape(_phrase(feature)) + f" (?:{re.escape(feature.been)} )?", body)
            found = start and _value(body[start.end() :], feature)
            if found:
                length, change = found
                yield feature.name, change
                body = body[start.end() + length :]
                break
        else:
            raise AssertionError(f"cannot read {body!r}")


def _value(text: str, feature: Numeric | Categorical):
    end = r"(?:, | and |$)"
    if isinstance(feature, Categorical):
        for category in sorted(feature.categories, key=lambda c: -len(feature.label(c))):
            match = re.match(re.escape(feature.label(category)) + end, text)
            if match:
                return match.end(), lambda old, c=category: {feature.name: c}
        return None
    unit = f"(?: (?:{re.escape(feature.unit)}|{re.escape(feature.unit_one or feature.unit)}))?"
    match = re.match(f"{NUMBER}{unit} instead of {NUMBER}{end}", text)
    if match:
        new = float(_number(match[1]))
        return match.end(), lambda old, n=new: {feature.name: n}
    match = re.match(f"{NUMBER}{unit} ({re.escape(feature.more)}|{re.escape(feature.less)}){end}", text)
    if match:
        sign = 1 if match[2] == feature.more else -1
        step = sign * _number(match[1])
        return match.end(), lambda old: {feature.name: float(Decimal(repr(float(old))) + step)}
    return None


def _number(said: str) -> Decimal:
    return Decimal(said.replace(",", "").replace("\N{MINUS SIGN}", "-"))


def _phrase(feature: Numeric | Categorical) -> str:
    return feature.phrase or feature.name.replace("_", " ")
