"""German translations of what a visitor of the page may have done wrong, by the format strings of GraceError."""

from collections.abc import Mapping

from grace.errors import MORE

ERRORS: Mapping[str, str] = {
    MORE: ", … (insgesamt {count})",
    # cells and rows
    "column {column!r}: unknown category {cell}; use one of {known}": (
        "Spalte „{column}“: unbekannte Kategorie {cell}; möglich sind {known}"
    ),
    "column {column!r}: {cell} is not a number; send one such as 1.5": (
        "Spalte „{column}“: {cell} ist keine Zahl; bitte eine wie 1.5 senden"
    ),
    "column {column!r}: {cell} is not a number; write it like 1.5": (
        "Spalte „{column}“: {cell} ist keine Zahl; bitte wie 1.5 schreiben"
    ),
    "column {column!r}: {cell} is not a finite number; write it like 1.5": (
        "Spalte „{column}“: {cell} ist keine endliche Zahl; bitte wie 1.5 schreiben"
    ),
    "column {column!r}: {cell} is no day that there is; write it as 2020-12-31": (
        "Spalte „{column}“: den Tag {cell} gibt es nicht; bitte wie 2020-12-31 schreiben"
    ),
    "column {column!r}: {cell} is not a date; write it as 2020-12-31": (
        "Spalte „{column}“: {cell} ist kein Datum; bitte wie 2020-12-31 schreiben"
    ),
    "column {column!r} is unknown to the model; drop or rename it; known are {known}": (
        "Spalte „{column}“ kennt das Modell nicht; weglassen oder umbenennen; bekannt sind {known}"
    ),
    "column {column!r}: the cell is missing; fill it in, or ask for missing cells to be filled in": (
        "Spalte „{column}“: die Zelle fehlt; ausfüllen, oder fehlende Zellen ergänzen lassen"
    ),
    "column {column!r}: the column is missing; fill it in, or ask for missing cells to be filled in": (
        "Spalte „{column}“: die Spalte fehlt; ausfüllen, oder fehlende Zellen ergänzen lassen"
    ),
    "column {column!r}, row {row}: {cell} is not a number; correct the cell, or declare the column Categorical in the "
    "schema": "Spalte „{column}“, Zeile {row}: {cell} ist keine Zahl; die Zelle berichtigen",
    "group {group!r}, row {row}: exactly one of the columns {columns} has to be 1 and the others 0; not 0 are {on}: "
    "correct the row, or leave them ungrouped": (
        "Gruppe „{group}“: genau eine der Spalten {columns} muss 1 sein und die anderen 0; die Zeile berichtigen"
    ),
    "there is no row: paste a line of column names and a line of values, or choose a file": (
        "es gibt keine Zeile: eine Zeile mit Spaltennamen und eine mit Werten einfügen, oder eine Datei wählen"
    ),
    "row {row} is not there; the rows are 0 to {last}": "Zeile {row} gibt es nicht; es gibt die Zeilen 0 bis {last}",
    "row {number!r}: give a whole number; 0 is the first": "Zeile „{number}“: bitte eine ganze Zahl; 0 ist die erste",
    'this is not JSON of a table: it is nested too deep; write it like {"column": 1.5}': (
        'das ist kein JSON einer Tabelle: zu tief verschachtelt; bitte wie {"spalte": 1.5} schreiben'
    ),
    'this is not JSON (line {line}, character {place}); write it like {{"column": 1.5}}': (
        'das ist kein JSON (Zeile {line}, Zeichen {place}); bitte wie {{"spalte": 1.5}} schreiben'
    ),
    'the JSON must be an object such as {"column": 1.5}, or a list of them': (
        'das JSON muss ein Objekt wie {"spalte": 1.5} sein oder eine Liste davon'
    ),
    "this is not CSV: a cell is broken off or too long; check the quotation marks": (
        "das ist kein CSV: eine Zelle bricht ab oder ist zu lang; bitte die Anführungszeichen prüfen"
    ),
    "the CSV has one line only; the first must be the column names, the next the values": (
        "das CSV hat nur eine Zeile; die erste muss die Spaltennamen haben, die nächste die Werte"
    ),
    "column {column!r}: the cell has {count} characters; shorten it": (
        "Spalte „{column}“: die Zelle hat {count} Zeichen; bitte kürzen"
    ),
    "the row has {count} columns; drop those that the model does not know": (
        "die Zeile hat {count} Spalten; bitte die weglassen, die das Modell nicht kennt"
    ),
    "the CSV has {count} columns; the most is {most}": "das CSV hat {count} Spalten; höchstens {most} sind möglich",
    "column {column!r} occurs twice; rename or drop one of them": (
        "Spalte „{column}“ kommt zweimal vor; eine davon umbenennen oder weglassen"
    ),
    "row {row} has {cells} cells, but there are {names} column names; correct the row": (
        "Zeile {row} hat {cells} Zellen, aber es gibt {names} Spaltennamen; die Zeile berichtigen"
    ),
    # the address and the form
    "there is no model {name!r}; there are {known}": "ein Modell „{name}“ gibt es nicht; es gibt {known}",
    "there is no feature {name!r}; features: {known}": "ein Merkmal „{name}“ gibt es nicht; Merkmale: {known}",
    "column {column!r}: the range begins above its end; swap the two": (
        "Spalte „{column}“: der Bereich beginnt über seinem Ende; die beiden vertauschen"
    ),
    "column {column!r}: every category is ruled out; leave one, or freeze it": (
        "Spalte „{column}“: jede Kategorie ist ausgeschlossen; eine übrig lassen, oder das Merkmal beibehalten"
    ),
    "unknown class {label!r}; the classes are {known}": "unbekannte Klasse „{label}“; die Klassen sind {known}",
    "row={said!r}: give a whole number from {low} to {high}": (
        "Zeile „{said}“: bitte eine ganze Zahl von {low} bis {high}"
    ),
    "k={said!r}: give a whole number from {low} to {high}": (
        "Änderungen höchstens „{said}“: bitte eine ganze Zahl von {low} bis {high}"
    ),
    "n={said!r}: give a whole number from {low} to {high}": (
        "Antworten „{said}“: bitte eine ganze Zahl von {low} bis {high}"
    ),
    "{key}={said!r} is unknown; use one of {known}": "{key}={said} ist unbekannt; möglich sind {known}",
    "{number!r} is not what a number should have been; write it like 1.5": (
        "„{number}“ sagt nicht, was die Zahl sein sollte; bitte wie 1.5 schreiben"
    ),
    # what was asked for
    "feature {name!r}: low={low} lies above high={high}": (
        "Merkmal „{name}“: die untere Grenze {low} liegt über der oberen {high}"
    ),
    "feature {name!r}: no whole number lies between {low} and {high}; widen low and high": (
        "Merkmal „{name}“: zwischen {low} und {high} liegt keine ganze Zahl; den Bereich erweitern"
    ),
    "feature {name!r} has no finite range, which a proof needs; give it low and high in the schema": (
        "Merkmal „{name}“ hat keinen endlichen Bereich, den ein Beweis braucht; im Schema low und high angeben"
    ),
    (
        "a proof needs a network of Linear and ReLU layers (trained here, or nn.Sequential whose encode only "
        "scales), a linear model or perceptron behind preprocessing that can be read, or an ensemble of trees"
    ): (
        "ein Beweis braucht ein Netz aus linearen und ReLU-Schichten, ein lineares Modell oder Perzeptron hinter einer "
        "Vorverarbeitung, die gelesen werden kann, oder Bäume"
    ),
    "there are no proofs with {name}=: they are about the model and its limits alone; leave it or prove= out": (
        "ein Beweis gilt dem Modell und seinen Grenzen allein; mit der Einstellung {name} gibt es keinen"
    ),
    "row {row}: a share of a prediction of 0 is 0; use by(a number)": (
        "ein Anteil einer Vorhersage von 0 ist 0; bitte einen Unterschied als Zahl angeben"
    ),
    "within({low:g}, {high:g}): the first number lies above the second": (
        "zwischen {low:g} und {high:g}: die erste Zahl liegt über der zweiten"
    ),
    'by({difference!r}): say by how much as a number, or as a share such as "+10 %"': (
        "„{difference}“: bitte als Zahl oder als Anteil wie +10 % angeben"
    ),
    "by({difference!r}): a difference of 0 is none": "ein Unterschied von 0 ist keiner",
    "{said!r}: say what the number should have been: above 10, below 10, within 5 10, by -3, by +10 %": (
        "„{said}“ sagt nicht, was die Zahl sein sollte; in Adressen: above 10, below 10, within 5 10, by -3, by +10 %"
    ),
    "{name}({value!r}): it must be a number": "„{value}“ ist keine Zahl",
    # the server
    "64 questions of yours are waiting already. Wait for some of their answers, then ask again.": (
        "64 Ihrer Fragen warten schon. Bitte erst einige Antworten abwarten und dann weiterfragen."
    ),
    "This was sent by a page of another site. Open this server's own page and send it from there.": (
        "Das hat eine fremde Seite gesendet. Bitte die Seite dieses Servers öffnen und es von dort senden."
    ),
    "This server does not go by that name. Use its own address, or start it with --allow-host.": (
        "Dieser Server heißt nicht so. Bitte seine eigene Adresse verwenden, oder ihn mit --allow-host starten."
    ),
    "What was sent did not arrive within 30 seconds. Send it again.": (
        "Was gesendet wurde, ist nicht innerhalb von 30 Sekunden angekommen. Bitte noch einmal senden."
    ),
    "Send the form in UTF-8.": "Bitte das Formular in UTF-8 senden.",
    "Too many questions are waiting. Try again in a moment.": (
        "Zu viele Fragen warten. Bitte gleich noch einmal versuchen."
    ),
    "Something went wrong here. The server's log says what.": (
        "Hier ist etwas schiefgegangen. Was, steht im Protokoll des Servers."
    ),
    "What was sent is too long; the most is 1 MB.": "Was gesendet wurde, ist zu lang; mehr als 1 MB geht nicht.",
    "There is no such page.": "Diese Seite gibt es nicht.",
    "This address cannot be used like that.": "Diese Adresse lässt sich so nicht verwenden.",
    "There is no such file; there are json, html, svg, png.": (
        "Diese Datei gibt es nicht; es gibt json, html, svg, png."
    ),
    "The address has too many parts.": "Die Adresse hat zu viele Teile.",
    "Send the row by the form on the page, or to /api/explain as JSON.": (
        "Bitte die Zeile über das Formular der Seite senden, oder an /api/explain als JSON."
    ),
}
