"""`grace serve MODEL --rows mine.csv`: the page goes through the user's own table. And models that cannot be served."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from conftest import client_of
from fastapi.testclient import TestClient

import grace
from grace import GraceError
from grace.cli import main
from grace.web import examples
from grace.web.pages import create_app
from grace.web.service import Served
from served_kinds import browsed_model, own_table
from studies import EVIL, explainer, people
from visitors import Tags, says


@pytest.fixture(scope="module")
def browsed() -> TestClient:
    return client_of(browsed_model())


def alert(html: str) -> str:
    return html.split('role="alert">')[1].split("</p>")[0]


def test_rows_are_those_of_the_file_under_their_numbers(browsed: TestClient) -> None:
    first = browsed.get("/?row=0")
    assert first.status_code == 200
    assert browsed_model().example(0) == {"area": 80, "kind": "flat", "built": 1990}
    (number,) = [t for t in Tags(first.text).of("input") if t.get("id") == "row"]
    assert (number["min"], number["max"], number["value"]) == ("0", "3", "0")
    assert "of 4" in first.text
    assert "kunde:</span> C-17" in first.text
    assert "kunde" not in first.text.split('id="question"')[1]
    next_row = browsed.get("/?row=0&step=next", follow_redirects=False)
    assert next_row.headers["location"] == "/?row=1"
    around = browsed.get("/?row=3&step=next", follow_redirects=False)
    assert around.headers["location"] == "/?row=0"


def test_a_row_that_does_not_fit_is_shown_with_the_reason(browsed: TestClient) -> None:
    for row, words in ((1, "&#39;area&#39;: &#39;viel&#39; is not a number"), (3, "unknown category &#39;Zelt&#39;")):
        page = browsed.get(f"/?row={row}")
        assert page.status_code == 200
        assert f"Row {row} of the table does not fit the model" in page.text
        assert words in alert(page.text)
        assert f"C-{17 + row}" in page.text
        assert 'id="says"' not in page.text
        assert ">viel<" in page.text or ">Zelt<" in page.text  # the cells as they are
        assert browsed.get(f"/moved?row={row}").status_code == 200
        assert browsed.get(f"/more?row={row}").status_code == 200
        assert browsed.get(f"/download/why.json?row={row}").status_code == 422
        on = browsed.get("/", params=[*Tags(page.text).fields, ("step", "previous")], follow_redirects=False)
        assert on.headers["location"] == f"/?row={row - 1}"


def test_missing_cells_stay_missing_until_they_are_filled_in(browsed: TestClient) -> None:
    page = browsed.get("/?row=2")
    assert "the cell is missing" in alert(page.text)
    (fill,) = [t["href"] for t in Tags(page.text).of("a") if t.get("class") == "button"]
    assert fill == "/?row=2&fill=area"
    filled = browsed.get(fill, follow_redirects=False)
    assert filled.status_code == 200
    assert "was filled in" in filled.text
    assert says(filled.text)
    assert "filled in" in filled.text.split('id="question"')[1]
    again = browsed.get("/", params=Tags(filled.text).fields, follow_redirects=False)  # as a form, without scripts
    assert again.headers["location"] == fill
    other = [(k, v) for k, v in Tags(filled.text).fields if k != "row"]
    assert browsed.get("/", params=[*other, ("row", "0")], follow_redirects=False).headers["location"] == "/?row=0"


def test_going_through_one_class_passes_over_rows_that_do_not_fit() -> None:
    table = people().head(30).assign(id=range(30))
    table[EVIL] = table[EVIL].astype(object)
    table.loc[5, EVIL] = "much"
    served = Served("own", explainer(), rows=table)
    assert served.example_classes is not None
    assert served.example_classes[5] == examples.UNFIT
    said = explainer().model.predict(table.drop(columns=["id", "verdict"]).drop(index=5).astype({EVIL: float}))
    fits = served.example_classes[served.example_classes != examples.UNFIT]
    assert [served.classes[c] for c in fits] == list(said)
    for label in served.classes:
        code = served.classes.index(label)
        at = [i for i in range(30) if served.example_classes[i] == code]
        walked = [served.after(-1, label)]
        while len(walked) < len(at):
            walked.append(served.after(walked[-1], label))
        assert walked == at
        assert served.after(at[0], label, -1) == at[-1]


def test_cells_are_read_as_the_page_reads_them() -> None:
    """A column of text that holds numbers, and one bad cell that makes text of all the others."""
    table = people().head(8).astype(str)
    table.loc[3, "age"] = "?"
    table.loc[4, "age"] = "old"
    served = Served("own", explainer(), rows=table)
    plain = Served("plain", explainer(), rows=people().head(8))
    assert served.example_classes is not None
    assert plain.example_classes is not None
    for i in range(8):
        if i in (3, 4):
            assert served.example_classes[i] == examples.UNFIT
            with pytest.raises(GraceError):
                served.example(i)
        else:
            assert served.example_classes[i] == plain.example_classes[i]
            assert served.example(i) == plain.example(i)


def test_a_long_table_is_cut_and_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from grace.cli.serve import load_saved

    monkeypatch.setattr(examples, "MAX_ROWS", 50)
    people().to_csv(tmp_path / "mine.csv", index=False)
    explainer().save(str(tmp_path / "model"))
    (served,) = load_saved((str(tmp_path / "model"),), str(tmp_path / "mine.csv"))
    assert len(served.examples) == 50


def test_a_table_without_a_needed_column_or_row_is_refused() -> None:
    with pytest.raises(GraceError, match="'age' is missing from the table"):
        Served("own", explainer(), rows=people().drop(columns="age"))
    with pytest.raises(GraceError, match="the table is empty"):
        Served("own", explainer(), rows=people().head(0))


def test_hostile_cells_of_the_table_stay_text() -> None:
    table = own_table().assign(kunde="<script>alert(1)</script>")
    client = client_of(Served("own", browsed_model().quick.explainer, rows=table))
    for row in range(4):
        assert "<script>alert" not in client.get(f"/?row={row}").text


# -- models that cannot be served -------------------------------------------------------------


def folders(tmp_path: Path) -> dict[str, Path]:
    made = {name: tmp_path / name for name in ("good", "damaged", "bare", "wrapped", "nothing")}
    explainer().save(str(made["good"]))
    for name in ("damaged", "bare"):
        shutil.copytree(made["good"], made[name])
    (made["damaged"] / "grace.json").write_text('{"format": ')
    (made["bare"] / "weights.safetensors").unlink()
    browsed_model().quick.explainer.save(str(made["wrapped"]))
    return made


def test_one_model_that_cannot_be_served_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    served: list[str] = []
    monkeypatch.setattr("grace.web.pages.create_app", lambda models, _: served.extend(m.name for m in models))
    monkeypatch.setattr("grace.web.server.run", lambda *_, **__: None)
    made = folders(tmp_path)
    run = CliRunner().invoke(main, ["serve", *map(str, made.values()), "--port", "0"])
    assert run.exit_code == 0, run.output
    assert served == ["good"]
    lines = [line for line in run.output.splitlines() if "cannot be served" in line]
    assert len(lines) == 4
    for name, line in zip(list(made)[1:], lines, strict=True):
        assert line.startswith(f"{made[name]} cannot be served: ")
    alone = CliRunner().invoke(main, ["serve", str(made["damaged"]), "--port", "0"])
    assert alone.exit_code == 1
    assert "no model is left to serve" in alone.output
    assert "Traceback" not in alone.output


def test_the_command_takes_a_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    served: list[Served] = []
    monkeypatch.setattr("grace.web.pages.create_app", lambda models, _: served.extend(models))
    monkeypatch.setattr("grace.web.server.run", lambda *_, **__: None)
    explainer().save(str(tmp_path / "model"))
    table = people().head(5).assign(customer=[f"C-{i}" for i in range(5)])
    table.to_csv(tmp_path / "mine.csv", index=False)
    table.to_parquet(tmp_path / "mine.parquet")
    for name in ("mine.csv", "mine.parquet"):
        run = CliRunner().invoke(
            main, ["serve", str(tmp_path / "model"), "--rows", str(tmp_path / name), "--port", "0"]
        )
        assert run.exit_code == 0, run.output
        assert list(served[-1].extra.columns) == ["verdict", "customer"]
        assert served[-1].example(2) == {name: table[name].iloc[2] for name in served[-1].schema.names}
    assert CliRunner().invoke(main, ["serve", "--demo", "--rows", str(tmp_path / "mine.csv")]).exit_code == 2
    empty = pd.DataFrame(columns=table.columns)
    empty.to_csv(tmp_path / "empty.csv", index=False)
    run = CliRunner().invoke(main, ["serve", str(tmp_path / "model"), "--rows", str(tmp_path / "empty.csv")])
    assert run.exit_code == 1


def test_long_names_are_cut_in_the_middle_and_said_in_full_on_demand() -> None:
    name = "balance_of_the_second_account_at_the_end_of_2024_q3"
    frame = pd.DataFrame({name: np.linspace(0, 1, 60), "b": np.tile([0.0, 1.0], 30)})
    model = grace.wrap(lambda rows: 1 / (1 + np.exp(5 - 10 * rows[name])), classes=["no", "yes"])
    with TestClient(create_app([Served("long", grace.Explainer(model, frame))])) as client:
        page = client.get("/").text
    full = name.replace("_", " ")
    assert f'title="{full}">balance of the second' in page
    assert "2024 q3</label>" in page
