"""Clauses and sentences that accompany a German sentence: probabilities, proofs, reasons and notes.

Features are in the nominative throughout, as their other cases are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from grace.schema.features import Feature
from grace.schema.formatting import decimal
from grace.schema.words import fill
from grace.text.languages import Facts, Limits, RegionValues, if_few, listed, percent, shown
from grace.text.languages.de.words import AND, COUNT, PERCENT, label, number, quoted

RANGES = {"central": "der üblichen Bereiche", "minmax": "der beobachteten Bereiche"}


def sure(probability: float, *, then: bool) -> str:
    sign, whole = percent(probability)
    share = f"{PERCENT[sign]}{whole} %"
    return f" (das Modell {f'wäre sich dann zu {share} sicher gewesen' if then else f'war sich zu {share} sicher'})"


def cutoff(share: str, named: str, *, reached: bool, then: bool) -> str:
    if not named:
        return " (nach den Schwellen, die für jede Klasse gesetzt sind)"
    side = f"die Schwelle von {share} % {'' if reached else 'nicht '}erreicht"
    return f" (die Wahrscheinlichkeit für {named} {f'hätte dann {side}' if then else f'hat {side}'})"


def minimum(limits: Limits, form: str) -> str:
    within = f"Innerhalb dieser Bereiche{f' {AND} Kategorien' if limits.categories else ''}{_conditions(limits)}"
    single = limits.count == 1
    words = {2: "zwei", **dict(enumerate(COUNT, 3))}
    count = "keine einzelne Änderung" if single else f"keine {words.get(limits.count, str(limits.count))} Änderungen"
    done = f"zu {_wanted(limits)} geführt" if limits.towards else "genügt"
    return f"{within} {'hätte' if single else 'hätten'} {count}{_at_least(limits)} {done}."


def one_change(limits: Limits, feature: Feature, size: str) -> str:
    fewest = "nachgewiesen: weniger als eine Änderung gibt es nicht"
    if not size:
        return fewest
    done = f"zu {_wanted(limits)} geführt" if limits.towards else "genügt"
    within = f"innerhalb dieser Bereiche{_conditions(limits)}"
    none = f"keine Änderung um weniger als {size}{_at_least(limits)}"
    return f"{fewest}; {feature.noun}: {within} hätte für sich allein {none} {done}"


def _wanted(limits: Limits) -> str:
    """ "„Fenster“", "einer Vorhersage von mindestens 200.000", "einer Vorhersage zwischen 5 und 10"."""
    if not limits.is_number:
        return quoted(limits.towards)
    return f"einer Vorhersage {'' if limits.towards.startswith('zwischen') else 'von '}{limits.towards}"


def _at_least(limits: Limits) -> str:
    share = number(Decimal(100) * decimal(limits.confidence))
    return f" mit einer Wahrscheinlichkeit von mindestens {share} %" if limits.confidence > 0 else ""


def _conditions(limits: Limits) -> str:
    """ " (unverändert: das Alter; nur steigend: das Einkommen)"; more than a few features are counted."""
    out = []
    limited = (("unverändert", limits.fixed), ("nur steigend", limits.rising), ("nur fallend", limits.falling))
    for how, features in ((how, features) for how, features in limited if features):
        names = if_few([f.noun for f in features])
        out.append(f"{how}: {listed(names, AND) if names else f'{len(features)} der Merkmale'}")
    out += ["ohne zwei Merkmale, die weitgehend dasselbe sagen"] if limits.distinct else []
    ties = "Gleichstände zwischen Klassen" if limits.between_classes else "Grenzfälle"
    out += [f"{ties} ausgenommen"] if limits.except_ties else []
    return f" ({'; '.join(out)})" if out else ""


def room(facts: Facts, values: Sequence[RegionValues], points: int) -> str:
    """ "Nachgewiesen: Das Modell hätte … eingestuft, mit jedem dieser Werte und allem anderen unverändert: …"."""
    clauses = []
    for part in values:
        said = f"{part.words[0]} bis {part.words[-1]}" if part.is_interval else listed(part.words, "oder")
        clauses.append(f"{part.feature.noun}: {said}")
    checked = f"An {number(Decimal(points))} Punkten geprüft, nicht nachgewiesen" if points else "Nachgewiesen"
    decided = f"hätte das Modell {fill(facts.verb, facts.after, facts.row)}"
    return f"{checked}: Mit jedem dieser Werte und sonst unverändert {decided} ({'; '.join(clauses)})."


def failed(facts: Facts, reason: str) -> str:
    return f"Das Modell hat {fill(facts.verb, facts.before, facts.row)}; {reason}"


def reason(miss: Mapping[str, Any], limits: Limits) -> str:
    if miss["why"] == "already":
        return "das ist bereits das, wonach gefragt war"
    if miss["why"] == "calls":
        most = number(decimal(miss["most"]))
        return f"die Grenze von {most} Fragen an das Modell ist erreicht; es müssten mehr erlaubt sein"
    most = "einer Änderung" if limits.count == 1 else f"{limits.count} Änderungen"
    exists = "gibt es nachweislich" if miss["proven"] else "fand sich"
    towards = f" zugunsten von {quoted(limits.towards)}" if limits.towards else ""
    where = "der erlaubten Bereiche" if miss.get("own_ranges") else RANGES.get(miss["domain"], RANGES["central"])
    within = f"innerhalb {where}{f' {AND} Kategorien' if limits.categories else ''}{_conditions(limits)}"
    none = f"{'keinen' if miss['proven'] else 'kein'} Kontrast{towards}{_at_least(limits)}"
    return f"mit höchstens {most} {exists} {within} {none}; {_hint(miss['ways'], limits)}{_protected(limits)}"


def _protected(limits: Limits) -> str:
    """ "; geschützt und daher unverändert: das Alter"; more than a few features are counted."""
    if not limits.protected:
        return ""
    names = if_few([f.noun for f in limits.protected])
    words = listed(names, AND) if names else f"{len(limits.protected)} der Merkmale"
    return f"; geschützt und daher unverändert: {words}"


def _hint(remedies: Sequence[Mapping[str, Any]], limits: Limits) -> str:
    """The remedies, each sufficient; features of which any one would suffice are named together."""
    alone = [remedy["value"][0] for remedy in remedies if remedy["limit"] == "free" and len(remedy["value"]) == 1]
    clauses = list(dict.fromkeys(_remedy(alone=alone, **remedy) for remedy in remedies))
    if not clauses:
        return f"auch nicht, wenn eine einzelne {'andere ' if limits.protected else ''}Grenze entfällt"
    return f"möglich{',' if clauses[0].startswith('wenn ') else ''} {', oder '.join(clauses)}"


def _remedy(alone: Sequence[str], limit: str, value: Any = None) -> str:
    if limit == "free" and len(value) == 1:
        return f"wenn sich {listed(alone, 'oder')} frei ändern darf"
    if limit == "free":
        return f"wenn sich {listed(value, AND)} frei ändern dürfen"
    if limit == "rules":
        return f"ohne die Regel{'n' if len(value) > 1 else ''} {listed([label(v) for v in value], AND)}"
    return {
        "against": f"zugunsten von {quoted(str(value))}",
        "confidence": "wenn eine geringere Wahrscheinlichkeit genügt",
        "follow": "wenn sich kein anderes Merkmal mitändert",
        "max_features": f"mit bis zu {value} Änderungen",
        "gamma": "wenn sich zwei Merkmale, die weitgehend dasselbe sagen, zugleich ändern dürfen",
        "domain": "mit Werten aus dem ganzen Bereich der Trainingsdaten",
        "method": "mit einer gründlicheren Suche",
    }[limit]


def note(remark: Mapping[str, Any], feature: Feature | None) -> str:
    if remark["what"] == "tie":
        return "weniger dieser Änderungen genügten auch, aber nur bei Gleichstand der Klassen oder beinahe"
    if feature is None:
        return (
            f"die Zeile selbst verletzt die Regel {label(remark['rule'])}, die nur einhalten muss, was deren Merkmale "
            "ändert; die Zeile berichtigen oder die Regel weglassen"
        )
    if remark["what"] == "brittle":
        return f"{feature.noun}: bei einer etwas größeren Änderung würde das Modell wieder anders entscheiden"
    missing = f"{feature.noun} {'fehlten' if feature.plural else 'fehlte'}"
    if remark["what"] == "known missing":
        return f"{missing}, was das Modell als eigene Kategorie kennt"
    value = shown(number, remark["value"])
    if remark["what"] == "filled":
        return f"{missing}; {value} wurde eingesetzt"
    subject = f"{feature.noun} {'sind' if feature.plural else 'ist'} {value}"
    if remark["what"] == "fraction":
        return f"{subject}, keine ganze Zahl"
    low, high = (shown(number, remark[end]) for end in ("low", "high"))
    lies = "liegen" if feature.plural else "liegt"
    return f"{subject} und {lies} außerhalb des erlaubten Bereichs von {low} bis {high}"
