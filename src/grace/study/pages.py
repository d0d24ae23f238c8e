"""The pages of a study: consent, one task, thanks. Plain forms without scripts or external resources.

The URL with a participant's token is the whole state: it shows the task until there is an answer, and the debriefing
from then on, however often it is loaded or submitted.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import sqlite3
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl

import pandas as pd
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as StarletteHTTPException

from grace import __version__
from grace.pictures.report import environment
from grace.study.controls import controls, read
from grace.study.design import MODEL, RESPONSES, Study, load
from grace.study.store import Answer, Participant, Store, completion_code
from grace.text.vocabulary import class_caption
from grace.web.hosts import Hosts
from grace.web.middleware import HEADERS, PICTURE_POLICY, Guard, allowed_methods

if TYPE_CHECKING:
    from grace.models.base import Model


TOKEN = re.compile(r"[A-Za-z0-9_-]{22}")
MAX_FIELDS = 20_000
RATINGS = {"intuitive": "how intuitive and friendly", "comprehensible": "how easy to understand"}

NO_SCRIPT_HEADERS = {**HEADERS, "Content-Security-Policy": f"{HEADERS['Content-Security-Policy']}; script-src 'none'"}

CONSENT = """You are asked to take part in a short study of how computer programs explain what they answer. It takes about five minutes.

You will see one answer of a program with an explanation of it, and {job}. No knowledge of computers is needed.

Kept are what you enter on the next page, when you began and when you sent it. Your name and address are not asked for and not kept. A cookie remembers that you have taken part, and is used for nothing else.

Taking part is voluntary. You can stop at any time by closing the page; nothing is kept of a page that you do not send. After sending it you can have your answer deleted."""  # noqa: E501
JOBS = {"rate": "rate the explanation", "adjust": "try to change the program's mind"}


async def fields(request: Request) -> dict[str, str]:
    """The fields of a submitted form, of limited number."""
    return await asyncio.to_thread(_fields, await request.body())


def _fields(body: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise HTTPException(413, "What was sent has too many fields.") from None


Fields = Annotated[dict[str, str], Depends(fields)]


def create_app(directory: str | Path, hosts: Hosts | None = None) -> FastAPI:
    """The app of the study in a directory; it answers to any host name unless `hosts` is given."""
    study = load(directory)
    store = Store(Path(directory) / RESPONSES)
    store.participants()  # fail now if the file is missing or invalid
    model = _load_model(directory) if study.task == "adjust" else None
    pages = Pages(study)
    app = FastAPI(title=study.title, docs_url=None, redoc_url=None, openapi_url=None)
    app.mount("/static", StaticFiles(packages=[("grace.study", "static")]))
    cookie = f"study-{study.name}"

    def find_participant(token: str) -> Participant:
        participant = store.participant(token) if TOKEN.fullmatch(token) else None
        if participant is None:
            raise HTTPException(404, "This address belongs to nobody who takes part. Begin again at the start page.")
        return participant

    def returning_token(request: Request) -> str | None:
        """The token of a browser that has started already."""
        token = request.cookies.get(cookie, "")
        return token if TOKEN.fullmatch(token) and store.participant(token) is not None else None

    @app.get("/")
    def welcome(request: Request) -> Response:
        token = returning_token(request)
        return pages.welcome(secrets.token_urlsafe(16)) if token is None else _redirect(token)

    @app.post("/start")
    def start(request: Request, form: Fields) -> Response:
        token = form.get("token", "")
        if not TOKEN.fullmatch(token):
            raise HTTPException(400, "This form is damaged. Begin again at the start page.")
        if form.get("agree") != "yes":
            return pages.welcome(token, [("agree", "Tick the box if you want to take part; else just close the page.")])
        earlier = returning_token(request)  # in another tab
        if earlier is not None:
            return _redirect(earlier)
        store.begin(token, len(study.arms), len(study.items), study.seed)
        response = _redirect(token)
        secure = request.url.scheme == "https"
        response.set_cookie(cookie, token, max_age=30 * 86400, httponly=True, samesite="lax", secure=secure)
        return response

    @app.get("/p/{token}")
    def task(token: str) -> Response:
        participant = find_participant(token)
        return pages.task(participant) if participant.may_answer else pages.done(participant)

    @app.post("/p/{token}")
    def submit(token: str, form: Fields) -> Response:
        participant = find_participant(token)
        if participant.may_answer:
            answer, errors = read_answer(study, participant, form, model)
            if answer is None:
                return pages.task(participant, form, errors)
            store.submit(token, answer)
        return _redirect(token)

    @app.post("/p/{token}/withdraw")
    def withdraw(token: str) -> Response:
        store.withdraw(find_participant(token).token)
        return _redirect(token)

    @app.get("/p/{token}/picture.svg")
    def picture(token: str) -> Response:
        participant = find_participant(token)
        account, _, shown = study.shown(participant.arm, participant.item)
        if not shown:
            raise HTTPException(404, "There is no picture here.")
        return Response(
            account.picture, media_type="image/svg+xml", headers={"Content-Security-Policy": PICTURE_POLICY}
        )

    @app.get("/health")
    async def health() -> Response:
        return JSONResponse({"status": "ok", "version": __version__})

    app.add_middleware(
        Guard, refuse=lambda _, message, status: pages.message(message, status), headers=NO_SCRIPT_HEADERS, hosts=hosts
    )

    @app.exception_handler(StarletteHTTPException)
    def refuse(request: Request, reason: Exception) -> Response:
        assert isinstance(reason, StarletteHTTPException)
        words = {404: "There is no such page.", 405: "This page cannot be used like that."}
        message = str(reason.detail) if isinstance(reason, HTTPException) else words.get(reason.status_code, "")
        response = pages.message(message or "Something is wrong with this address.", reason.status_code)
        if reason.status_code == 405:
            response.headers["Allow"] = allowed_methods(app, request.scope)
        return response

    @app.exception_handler(sqlite3.Error)
    def not_saved(request: Request, reason: Exception) -> Response:
        return pages.message("Your answer could not be saved just now. Go back, and send it again in a minute.", 503)

    return app


def read_answer(
    study: Study, participant: Participant, form: dict[str, str], model: Model | None
) -> tuple[Answer | None, list[tuple[str, str]]]:
    """The answer in a form, with the model's class of an adjusted row; None and the errors if it is invalid."""
    item = study.items[participant.item]
    errors: list[tuple[str, str]] = []
    ratings: dict[str, int | None] = dict.fromkeys(RATINGS)
    row = None
    if study.task == "rate":
        for key, words in RATINGS.items():
            ratings[key] = _integer(form.get(key), 1, 10)
            if ratings[key] is None:
                errors.append((key, f"Say {words} the explanation is, from 1 to 10."))
    else:
        row, errors = read(form, controls(study.schema, item.row))
    code = _integer(form.get("attention"), 0, len(study.schema.classes) - 1)
    if code is None:
        errors.append(("attention", "Choose what the computer answered."))
    if errors or code is None:
        return None, errors
    attention = study.schema.classes[code] == item.predicted
    if row is None:
        return Answer(attention=attention, intuitive=ratings["intuitive"], comprehensible=ratings["comprehensible"]), []
    assert model is not None
    predicted = model.predict(pd.DataFrame([row]))[0]
    correct = bool(predicted != item.predicted)
    return Answer(attention=attention, adjusted=row, predicted=str(predicted), correct=correct), []


class Pages:
    """Renders templates; values are escaped."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.templates = environment("grace.study")

    def welcome(self, token: str, errors: list[tuple[str, str]] | None = None) -> HTMLResponse:
        text = self.study.consent or CONSENT.format(job=JOBS[self.study.task])
        consent = [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]
        return self._page("welcome.html", errors, token=token, consent=consent)

    def task(
        self, participant: Participant, form: dict[str, str] | None = None, errors: list[tuple[str, str]] | None = None
    ) -> HTMLResponse:
        study, item = self.study, self.study.items[participant.item]
        _, text, picture = study.shown(participant.arm, participant.item)
        words = partial(class_caption, study.schema)
        return self._page(
            "task.html",
            errors,
            token=participant.token,
            form=form or {},
            wrong={key for key, _ in errors or []},
            controls=controls(study.schema, item.row),
            answer=words(item.predicted),
            probability="" if item.probability is None else _percent(item.probability),
            answers=[(str(i), words(label)) for i, label in enumerate(study.schema.classes)],
            text=text,
            picture=picture,
        )

    def done(self, participant: Participant) -> HTMLResponse:
        words = self.study.schema.class_words
        predicted = "" if participant.answer is None else participant.answer.predicted or ""
        return self._page(
            "done.html",
            None,
            token=participant.token,
            participant=participant,
            code=completion_code(participant.token),
            method=self.study.arms[participant.arm].method,
            answer=class_caption(self.study.schema, self.study.items[participant.item].predicted),
            predicted=words.get(predicted, predicted),
        )

    def message(self, message: str, status: int) -> HTMLResponse:
        return self._page("message.html", None, status, message=message)

    def _page(self, name: str, errors: list[tuple[str, str]] | None, status: int = 200, **parts: Any) -> HTMLResponse:
        html = self.templates.get_template(name).render(study=self.study, errors=errors or [], **parts)
        return HTMLResponse(html, 422 if errors else status)


def _load_model(directory: str | Path) -> Model:
    from grace.explain.store import load as load_explainer  # imports torch, which only this task needs

    return load_explainer(Path(directory) / MODEL).model


def _redirect(token: str) -> RedirectResponse:
    return RedirectResponse(f"/p/{token}", 303)


def _integer(text: str | None, low: int, high: int) -> int | None:
    if text is None or not re.fullmatch(r"[0-9]{1,6}", text, re.ASCII):
        return None
    return int(text) if low <= int(text) <= high else None


def _percent(p: float) -> str:
    """Rounded, but never up to 100 %."""
    return f"{p:.0%}" if p < 0.995 else "more than 99%"
