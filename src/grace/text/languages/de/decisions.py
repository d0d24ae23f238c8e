"""German texts about how a model decides. Features are in the nominative throughout."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from grace.schema.features import Feature, Numeric
from grace.schema.formatting import decimal
from grace.schema.words import fill
from grace.text.decision_facts import AloneFacts, ForecastFacts, Prediction, SetFacts, SufficientFacts, Values
from grace.text.languages import if_few, listed
from grace.text.languages.de.remarks import RANGES
from grace.text.languages.de.words import AND, measured, number, quoted

SETS = (
    "ein Merkmal allein",
    *(f"ein {kind} zusammen" for kind in ("Paar", "Satz von drei", "Satz von vier", "Satz von fünf")),
)
MANY = (
    "Merkmale allein",
    *(f"{kind} zusammen" for kind in ("Paare", "Sätze von drei", "Sätze von vier", "Sätze von fünf")),
)


def count(n: int) -> str:
    return number(Decimal(n))


def within(prediction: Prediction) -> str:
    return f"Innerhalb {RANGES.get(prediction.within, 'der erlaubten Bereiche')}"


def done(prediction: Prediction, how: str = "") -> str:
    """ "das ändern können", "allein zu „Fenster“ führen können"."""
    if prediction.confidence > 0:
        share = number(Decimal(100) * decimal(prediction.confidence))
        how = f"{how}mit einer Wahrscheinlichkeit von mindestens {share} % "
    if not prediction.towards:
        return f"das {how}ändern können"
    if prediction.is_number:
        of = "" if prediction.towards.startswith("zwischen") else "von "
        return f"{how}zu einer Vorhersage {of}{prediction.towards} führen können"
    return f"{how}zu {quoted(prediction.towards)} führen können"


def predicted(prediction: Prediction) -> str:
    return f"Das Modell hat {fill(prediction.verb, prediction.before, prediction.row)}."


def already(prediction: Prediction) -> str:
    return f"{predicted(prediction)} Das ist bereits das, wonach gefragt war."


def values(part: Values) -> str:
    """ "höchstens 3", "mindestens 8 oder zwischen 2 und 4"."""
    if part.labels:
        return listed(part.labels, "oder")
    feature = part.feature
    assert isinstance(feature, Numeric)
    out = []
    for low, high in part.intervals:
        if low is None or high is None:
            bound = low if high is None else high
            side = "mindestens" if high is None else "höchstens"
            out.append("jeder andere Wert" if bound is None else f"{side} {measured(feature, bound)}")
        else:
            out.append(
                measured(feature, low) if low == high else f"zwischen {number(low)} {AND} {measured(feature, high)}"
            )
    return listed(out, "oder")


def names(features: Sequence[Feature]) -> str:
    few = if_few([f.noun for f in features])
    return listed(few, AND) if few else f"{count(len(features))} Merkmale"


def alone(facts: AloneFacts) -> str:
    if facts.prediction.already:
        return already(facts.prediction)
    flips, total = len(facts.flips) + facts.more, facts.total
    out = [predicted(facts.prediction)]
    if not flips and facts.cannot and not facts.none_found and not facts.undecided:
        none = f"keines der {count(total)} änderbaren Merkmale" if total > 1 else "das eine änderbare Merkmal nicht"
        able = f"hätte {none} {done(facts.prediction, 'allein ')}, gleich mit welchem Wert (nachgewiesen)"
        return f"{out[0]} {within(facts.prediction)} {able}."
    if flips:
        parts = [f"{part.feature.noun} ({values(part)})" for part in facts.flips]
        parts += [f"{count(facts.more)} weitere"] if facts.more else []
        verb = "hätte" if flips == 1 else "hätten"
        which = f"{count(flips)} der {count(total)} änderbaren Merkmale" if total > 1 else "das eine änderbare Merkmal"
        able = done(facts.prediction, "allein ") + (", soweit Werte erprobt wurden" if facts.sampled else "")
        out.append(f"{within(facts.prediction)} {verb} {which} {able}: {listed(parts, AND)}.")
    if facts.cannot:
        out.append(f"Nicht gekonnt hätten es, gleich mit welchem Wert (nachgewiesen): {names(facts.cannot)}.")
    if facts.none_found:
        out.append(f"Kein Wert gefunden, der es allein vermag: {names(facts.none_found)}.")
    if facts.undecided:
        out.append(f"Offen ist es für: {names(facts.undecided)}.")
    return " ".join(out)


def sets(facts: SetFacts) -> str:
    if facts.prediction.already:
        return already(facts.prediction)
    out, able = [predicted(facts.prediction)], done(facts.prediction)
    found = [(n, size) for size, n in enumerate(facts.counts) if n]
    may = ("änderbares ", "änderbaren ") if facts.limited else ("", "")
    up_to = f"Satz von höchstens {facts.complete_to} {may[1]}Merkmalen"
    up_to = f"einzelnes {may[0]}Merkmal" if facts.complete_to == 1 else up_to
    if not found:
        none = f"hätte kein {up_to} {able} (nachgewiesen)"
        none = none if facts.complete_to else f"fand sich kein Satz von Merkmalen, der hätte {able}"
        return f"{out[0]} {within(facts.prediction)} {none}."
    least = "mindestens " if facts.complete_to < len(facts.counts) else ""
    parts = [f"{least}{SETS[size] if n == 1 else f'{count(n)} {MANY[size]}'}" for n, size in found]
    verb = "hätte" if len(found) == 1 and found[0][0] == 1 else "hätten"
    out.append(f"{within(facts.prediction)} {verb} {listed(parts, AND)} {able}.")
    if facts.complete_to == 1:
        out.append(f"Kein anderes {may[0]}Merkmal könnte es allein (nachgewiesen).")
    elif facts.complete_to:
        out.append(f"Jeder andere {up_to}, der es könnte, enthält einen davon (nachgewiesen).")
    if facts.in_all:
        out.append(f"In jedem davon enthalten: {listed([f.noun for f in facts.in_all], AND)}.")
    return " ".join(out)


def sufficient(facts: SufficientFacts) -> str:
    p = facts.prediction
    if p.already and p.is_number:
        return already(p)
    did = f"Das Modell hat {fill(p.verb, p.before, p.row)}{f' statt {p.towards}' if p.is_number else ''}"
    where = f"{within(p)[0].lower()}{within(p)[1:]}"
    rest = f"gleich welche Werte die übrigen änderbaren Merkmale {where} haben (nachgewiesen)"
    if facts.count == 0:
        return f"{did}, {rest.replace('die übrigen', 'die')}."
    if facts.features:
        because = listed([f"{feature.noun} ({value})" for feature, value in facts.features], AND)
        text = f"{did}, {rest}; dafür genügt: {because}."
    else:
        text = f"{did}, {rest}; dafür genügen {count(facts.count)} der {count(facts.total)} änderbaren Merkmale."
    if facts.smallest:
        return f"{text} Weniger Merkmale genügen nicht."
    if facts.minimal:
        return f"{text} Keines davon ist entbehrlich."
    return f"{text} Ob {count(facts.undecided)} davon entbehrlich sind, ist offen."


def forecast(facts: ForecastFacts) -> str:
    if facts.right is None:
        return (
            "Es werden keine Punkte gezeigt: die Summe dessen, was Änderungen allein bewirken, sagt das Modell für "
            "diese Zeile nicht gut voraus."
        )
    counted = f"; zwei Änderungen zählen {facts.two_count} % der Summe ihrer Punkte"
    counted = "" if facts.two_count == 100 else counted
    out = [f"Die Summe der Punkte sagt {facts.right} von 100 anderen Änderungen dieser Zeile richtig voraus{counted}."]
    for pair in facts.pairs:
        (a, of_a), (b, of_b) = pair.first, pair.second
        more = f"{abs(pair.points)} Punkte {'mehr' if pair.points > 0 else 'weniger'}"
        out.append(f"Zusammen {more} als einzeln: {a.noun} ({of_a}) und {b.noun} ({of_b}).")
    return " ".join(out)
