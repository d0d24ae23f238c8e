"""Explainers on disk: the same answers after a round trip, whole or not at all, and never pickle."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import grace
from grace import Explainer, GraceError, datasets, training
from grace.explain import store


def explainer_for(name: str, **settings) -> tuple[Explainer, pd.DataFrame]:
    """A briefly trained explainer of a table, and test rows for it."""
    t = datasets.load(name)
    parts = t.split()
    model = training.fit(parts.train, schema=t.declared, validation=parts.validation, max_epochs=12, hidden=(12,))
    return Explainer(model, parts.train, **settings), model.impute(parts.test).drop(columns=t.target).head(15)


@pytest.fixture(scope="module")
def cancer95():
    return explainer_for("cancer95")


@pytest.fixture(scope="module")
def german_credit():
    return explainer_for("german_credit", max_features=3, gamma=0.4, domain="minmax", steps=60)


@pytest.fixture(scope="module")
def saved(cancer95, tmp_path_factory) -> Path:
    """A saved explainer that tests may copy but not change."""
    directory = tmp_path_factory.mktemp("store") / "model"
    cancer95[0].save(directory)
    return directory


def content(directory: Path) -> dict[str, bytes]:
    """Everything below a directory, hidden files too."""
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def assert_same_answers(one: Explainer, other: Explainer, rows: pd.DataFrame, **settings) -> None:
    a, b = one.explain(rows, **settings), other.explain(rows, **settings)
    assert a.success.any()
    assert [e.text() for e in a] == [e.text() for e in b]
    pd.testing.assert_frame_equal(a.contrast, b.contrast)
    np.testing.assert_array_equal(a.answers.after, b.answers.after)
    assert a.settings == b.settings


# -- there and back -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["gradient", "local"])
@pytest.mark.parametrize("name", ["cancer95", "german_credit"])
def test_a_loaded_explainer_gives_the_same_answers(name, method, request, tmp_path):
    explainer, rows = request.getfixturevalue(name)
    explainer.save(tmp_path / "model")
    loaded = grace.load(tmp_path / "model")
    assert_same_answers(explainer, loaded, rows, method=method)
    assert repr(loaded) == repr(explainer)
    assert loaded.settings == explainer.settings


@pytest.mark.parametrize("domain", ["central", "minmax", 0.8])
def test_every_domain_survives(cancer95, saved, domain):
    explainer, rows = cancer95
    assert_same_answers(explainer, grace.load(str(saved)), rows, domain=domain)


def test_a_loaded_explainer_is_saved_as_the_same_bytes(saved, tmp_path):
    grace.load(saved).save(tmp_path / "again")
    assert content(tmp_path / "again") == content(saved)


def test_without_background_the_gradient_method_still_works(cancer95, tmp_path):
    explainer, rows = cancer95
    explainer.save(tmp_path / "model", background=False)
    loaded = grace.load(tmp_path / "model")
    assert_same_answers(explainer, loaded, rows)
    assert_same_answers(explainer, loaded, rows, domain="minmax")
    for settings in ({"method": "local"}, {"method": "nearest"}, {"domain": 0.7}):
        with pytest.raises(GraceError, match="training rows"):
            loaded.explain(rows, **settings)


def test_without_background_no_row_is_written(cancer95, saved, tmp_path):
    cancer95[0].save(tmp_path / "model", background=False)
    assert len(content(tmp_path / "model")[store.ARRAYS]) < len(content(saved)[store.ARRAYS]) / 10


def test_numbers_of_numpy_can_be_saved_as_settings(cancer95, tmp_path):
    explainer, rows = cancer95
    thrifty = Explainer(explainer.model, schema=explainer.schema, max_features=np.int64(2), gamma=1)
    thrifty.save(tmp_path / "model")
    assert grace.load(tmp_path / "model").settings.max_features == 2
    assert json.loads(thrifty.explain(rows).to_json())[0]["settings"]["max_features"] == 2


# -- the directory ------------------------------------------------------------------------------------


def test_there_is_only_json_and_safetensors(saved):
    files = content(saved)
    assert set(files) == {store.HEAD, store.WEIGHTS, store.ARRAYS}
    assert {Path(name).suffix for name in files} == {".json", ".safetensors"}
    assert not any(data.startswith((b"\x80\x04", b"\x80\x05", b"PK")) for data in files.values())  # pickle, torch.save
    assert [p.name for p in saved.parent.iterdir()] == ["model"]


def test_all_files_can_be_read_by_whoever_can_read_one(saved):
    assert len({p.stat().st_mode for p in saved.iterdir()}) == 1


def test_saving_over_an_explainer_replaces_it(german_credit, saved, tmp_path):
    explainer, rows = german_credit
    target = tmp_path / "model"
    shutil.copytree(saved, target)
    explainer.save(target)
    assert_same_answers(explainer, grace.load(target), rows)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_an_empty_directory_and_new_parents_will_do(saved, tmp_path):
    (tmp_path / "empty").mkdir()
    for target in (tmp_path / "empty", tmp_path / "deep" / "er"):
        grace.load(saved).save(target)
        assert content(target) == content(saved)


def test_the_current_directory_will_do(saved, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    grace.load(saved).save(".")
    assert content(tmp_path) == {f"here/{name}": data for name, data in content(saved).items()}


@pytest.mark.parametrize("name", ["precious", "precious/notes.txt"])
def test_what_is_not_an_explainer_is_left_alone(cancer95, tmp_path, name):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "notes.txt").write_text("mine")
    with pytest.raises(GraceError, match="not a saved explainer"):
        cancer95[0].save(tmp_path / name)
    assert content(tmp_path) == {"precious/notes.txt": b"mine"}


def test_a_file_that_someone_put_beside_the_weights_is_not_deleted(saved, tmp_path):
    target = tmp_path / "model"
    shutil.copytree(saved, target)
    (target / "notes.txt").write_text("mine")
    with suppress(GraceError):  # to refuse is fine, too
        grace.load(saved).save(target)
    assert content(target) == {**content(saved), "notes.txt": b"mine"}


# -- interruptions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("existing", [True, False])
def test_an_interrupted_save_changes_nothing(german_credit, saved, tmp_path, monkeypatch, existing):
    def interrupted(explainer, directory, background):
        (directory / store.HEAD).write_text("{")
        raise KeyboardInterrupt

    if existing:
        shutil.copytree(saved, tmp_path / "model")
    before = content(tmp_path)
    monkeypatch.setattr(store, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        german_credit[0].save(tmp_path / "model")
    assert content(tmp_path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["model"] * existing


@pytest.mark.parametrize("fatal", [1, 2, 3])
def test_a_save_that_cannot_rename_leaves_the_old_or_the_new_explainer(
    german_credit, saved, tmp_path, monkeypatch, fatal
):
    german_credit[0].save(tmp_path / "new")
    new = content(tmp_path / "new")
    target = tmp_path / "model"
    shutil.copytree(saved, target)
    calls = []

    def failing(move):
        def moved(*args, **kwargs):
            calls.append(args)
            if len(calls) == fatal:
                raise OSError("no")
            return move(*args, **kwargs)

        return moved

    monkeypatch.setattr(os, "rename", failing(os.rename))
    monkeypatch.setattr(os, "replace", failing(os.replace))
    with suppress(OSError, GraceError):
        german_credit[0].save(target)
    assert calls
    assert content(target) in (content(saved), new)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model", "new"]


def test_a_place_that_cannot_be_written_is_an_error_that_names_it(cancer95, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GraceError, match="file"):
        cancer95[0].save(tmp_path / "file" / "model")


# -- damage -------------------------------------------------------------------------------------------


def edit(**parts):
    """Change parts of grace.json; None takes one out."""

    def damage(directory: Path) -> None:
        head = {**json.loads((directory / store.HEAD).read_text()), **parts}
        (directory / store.HEAD).write_text(json.dumps({k: v for k, v in head.items() if v is not None}))

    return damage


def write(name: str, data: bytes):
    return lambda directory: (directory / name).write_bytes(data)


def truncate(name: str):
    return lambda directory: (directory / name).write_bytes((directory / name).read_bytes()[:-50])


DAMAGES = {
    "garbage": (write(store.HEAD, b'{"format": 1, '), store.HEAD),
    "not text": (write(store.HEAD, b"\xff\xfe\x00"), store.HEAD),
    "a list": (write(store.HEAD, b"[]"), store.HEAD),
    "nothing but the format": (write(store.HEAD, b'{"format": 1}'), store.HEAD),
    "no classes": (edit(classes=None), store.HEAD),
    "a domain without schema": (edit(domain=0.77), store.HEAD),
    "no head": (lambda directory: (directory / store.HEAD).unlink(), store.HEAD),
    "a later format": (edit(format=99), "99"),
    "another network": (edit(network={"hidden": [3]}), store.WEIGHTS),
    "an unknown setting": (edit(settings={"depth": 3}), "'depth'"),
    "truncated weights": (truncate(store.WEIGHTS), store.WEIGHTS),
    "no weights": (lambda directory: (directory / store.WEIGHTS).unlink(), store.WEIGHTS),
    "truncated arrays": (truncate(store.ARRAYS), store.ARRAYS),
    "no arrays": (lambda directory: (directory / store.ARRAYS).unlink(), store.ARRAYS),
}


@pytest.mark.parametrize(("damage", "culprit"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_explainer_is_an_error_that_names_the_damage(saved, tmp_path, damage, culprit):
    shutil.copytree(saved, tmp_path / "model")
    damage(tmp_path / "model")
    with pytest.raises(GraceError) as error:
        grace.load(tmp_path / "model")
    assert culprit in str(error.value)
    assert "\n" not in str(error.value)


def test_a_directory_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(GraceError, match="nowhere"):
        grace.load(tmp_path / "nowhere")


# -- wrapped modules ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own():
    """A user's own module, and data for it."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 3)).round(2), columns=list("abc"))
    frame["label"] = (frame["a"] + frame["b"] > 0).astype(int)
    module = torch.nn.Linear(3, 2)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[-2.0, -2.0, 0.1], [2.0, 2.0, 0.1]]))
        module.bias.zero_()
    return module, frame


def test_a_wrapped_module_has_to_be_given_again(own, tmp_path):
    module, frame = own
    explainer = Explainer(grace.wrap(module, classes=[0, 1]), frame, target="label")
    explainer.save(tmp_path / "model")
    assert store.WEIGHTS not in content(tmp_path / "model")
    with pytest.raises(GraceError, match="model="):
        grace.load(tmp_path / "model")
    with pytest.raises(GraceError, match="classes"):
        grace.load(tmp_path / "model", model=grace.wrap(module, classes=["no", "yes"]))
    loaded = grace.load(tmp_path / "model", model=grace.wrap(module, classes=[0, 1]))
    for method in ("gradient", "local"):
        assert_same_answers(explainer, loaded, frame.head(20), method=method)


def test_classes_may_be_numpys(own, tmp_path):
    module, frame = own
    explainer = Explainer(grace.wrap(module, classes=np.unique(frame["label"])), frame, target="label")
    assert json.loads(explainer.explain(frame.head(1)).to_json())[0]["classes"] == [0, 1]
    explainer.save(tmp_path / "model")
    assert_same_answers(explainer, grace.load(tmp_path / "model", model=explainer.model), frame.head(5))
