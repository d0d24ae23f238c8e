"""What a participant sees: consent, one task, thanks. Plain forms, no script, nothing from elsewhere.

The address with a participant's token is the whole of their state: it shows the task until an answer is there,
and the debriefing from then on, however often it is loaded, sent or gone back to.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl

import pandas as pd
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as Refusal

from grace import __version__
from grace.errors import GraceError, pip_install
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
MOST_FIELDS = 20_000
RATINGS = {"intuitive": "how intuitive and friendly", "comprehensible": "how easy to understand"}

SCRIPTLESS = {**HEADERS, "Content-Security-Policy": f"{HEADERS['Content-Security-Policy']}; script-src 'none'"}

CONSENT = """You are asked to take part in a short study of how computer programs explain what they answer. It takes about five minutes.

You will see one answer of a program with an explanation of it, and {job}. No knowledge of computers is needed.

Kept are what you enter on the next page, when you began and when you sent it. Your name and address are not asked for and not kept. A cookie remembers that you have taken part, and is used for nothing else.

Taking part is voluntary. You can stop at any time by closing the page; nothing is kept of a page that you do not send. After sending it you can have your answer deleted."""  # noqa: E501
JOBS = {"rate": "rate the explanation", "adjust": "try to change the program's mind"}


async def fields(request: Request) -> dict[str, str]:
    """The fields of a sent form, the number of them limited."""
    return await asyncio.to_thread(_fields, await request.body())


def _fields(body: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise HTTPException(413, "What was sent has too many fields.") from None


Fields = Annotated[dict[str, str], Depends(fields)]


def create_app(directory: str | Path, hosts: Hosts | None = None) -> FastAPI:
    """The pages of the study in a directory, under the names in `hosts`; any name if none are given."""
    study = load(directory)
    answers = Store(Path(directory) / RESPONSES)
    answers.participants()  # a missing or foreign file is found out now, not by the first participant
    judge = _judge(directory) if study.task == "adjust" else None
    show = Pages(study)
    app = FastAPI(title=study.title, docs_url=None, redoc_url=None, openapi_url=None)
    app.mount("/static", StaticFiles(packages=[("grace.study", "static")]))
    cookie = f"study-{study.name}"

    def known(token: str) -> Participant:
        who = answers.participant(token) if TOKEN.fullmatch(token) else None
        if who is None:
            raise HTTPException(404, "This address belongs to nobody who takes part. Begin again at the start page.")
        return who

    def returning(request: Request) -> str | None:
        """The token of a browser from which somebody has begun already."""
        token = request.cookies.get(cookie, "")
        return token if TOKEN.fullmatch(token) and answers.participant(token) is not None else None

    @app.get("/")
    def welcome(request: Request) -> Response:
        token = returning(request)
        return show.welcome(secrets.token_urlsafe(16)) if token is None else _go(token)

    @app.post("/start")
    def start(request: Request, sent: Fields) -> Response:
        token = sent.get("token", "")
        if not TOKEN.fullmatch(token):
            raise HTTPException(400, "This form is damaged. Begin again at the start page.")
        if sent.get("agree") != "yes":
            return show.welcome(token, [("agree", "Tick the box if you want to take part; else just close the page.")])
        earlier = returning(request)  # in another tab
        if earlier is not None:
            return _go(earlier)
        answers.begin(token, len(study.arms), len(study.items), study.seed)
        response = _go(token)
        secure = request.url.scheme == "https"
        response.set_cookie(cookie, token, max_age=30 * 86400, httponly=True, samesite="lax", secure=secure)
        return response

    @app.get("/p/{token}")
    def task(token: str) -> Response:
        who = known(token)
        return show.task(who) if who.answer is None and not who.withdrawn else show.done(who)

    @app.post("/p/{token}")
    def submit(token: str, sent: Fields) -> Response:
        who = known(token)
        if who.answer is None and not who.withdrawn:
            answer, errors = read_answer(study, who, sent, judge)
            if answer is None:
                return show.task(who, sent, errors)
            answers.submit(token, answer)
        return _go(token)

    @app.post("/p/{token}/withdraw")
    def withdraw(token: str) -> Response:
        answers.withdraw(known(token).token)
        return _go(token)

    @app.get("/p/{token}/picture.svg")
    def picture(token: str) -> Response:
        who = known(token)
        account, _, shown = study.shown(who.arm, who.item)
        if not shown:
            raise HTTPException(404, "There is no picture here.")
        return Response(
            account.picture, media_type="image/svg+xml", headers={"Content-Security-Policy": PICTURE_POLICY}
        )

    @app.get("/health")
    async def health() -> Response:
        return JSONResponse({"status": "ok", "version": __version__})

    def sentence(request: Request, message: str, status: int) -> Response:
        return show.message(message, status)

    app.add_middleware(Guard, refuse=sentence, headers=SCRIPTLESS, hosts=hosts)

    @app.exception_handler(Refusal)
    def refuse(request: Request, reason: Exception) -> Response:
        assert isinstance(reason, Refusal)
        words = {404: "There is no such page.", 405: "This page cannot be used like that."}
        message = str(reason.detail) if isinstance(reason, HTTPException) else words.get(reason.status_code, "")
        response = show.message(message or "Something is wrong with this address.", reason.status_code)
        if reason.status_code == 405:
            response.headers["Allow"] = allowed_methods(app, request.scope)
        return response

    @app.exception_handler(sqlite3.Error)
    def not_saved(request: Request, reason: Exception) -> Response:
        return show.message("Your answer could not be saved just now. Go back, and send it again in a minute.", 503)

    return app


def read_answer(
    study: Study, who: Participant, sent: dict[str, str], judge: Model | None
) -> tuple[Answer | None, list[tuple[str, str]]]:
    """The answer in a sent form, judged by the model; None if there is something wrong with it."""
    item = study.items[who.item]
    errors: list[tuple[str, str]] = []
    ratings: dict[str, int | None] = dict.fromkeys(RATINGS)
    row = None
    if study.task == "rate":
        for key, words in RATINGS.items():
            ratings[key] = _whole(sent.get(key), 1, 10)
            if ratings[key] is None:
                errors.append((key, f"Say {words} the explanation is, from 1 to 10."))
    else:
        row, errors = read(sent, controls(study.schema, item.row))
    code = _whole(sent.get("attention"), 0, len(study.schema.classes) - 1)
    if code is None:
        errors.append(("attention", "Choose what the computer answered."))
    if errors or code is None:
        return None, errors
    attention = study.schema.classes[code] == item.predicted
    if row is None:
        return Answer(attention=attention, intuitive=ratings["intuitive"], comprehensible=ratings["comprehensible"]), []
    assert judge is not None
    predicted = judge.predict(pd.DataFrame([row]))[0]
    correct = bool(predicted != item.predicted)
    return Answer(attention=attention, adjusted=row, predicted=str(predicted), correct=correct), []


class Pages:
    """The templates, filled in; everything that comes from data or people is escaped."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.templates = environment("grace.study")

    def welcome(self, token: str, errors: list[tuple[str, str]] | None = None) -> HTMLResponse:
        text = self.study.consent or CONSENT.format(job=JOBS[self.study.task])
        consent = [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]
        return self._page("welcome.html", errors, token=token, consent=consent)

    def task(
        self, who: Participant, sent: dict[str, str] | None = None, errors: list[tuple[str, str]] | None = None
    ) -> HTMLResponse:
        study, item = self.study, self.study.items[who.item]
        _, text, picture = study.shown(who.arm, who.item)
        words = partial(class_caption, study.schema)
        return self._page(
            "task.html",
            errors,
            token=who.token,
            sent=sent or {},
            wrong={key for key, _ in errors or []},
            controls=controls(study.schema, item.row),
            answer=words(item.predicted),
            probability="" if item.probability is None else _percent(item.probability),
            answers=[(str(i), words(label)) for i, label in enumerate(study.schema.classes)],
            text=text,
            picture=picture,
        )

    def done(self, who: Participant) -> HTMLResponse:
        words = self.study.schema.class_words
        predicted = "" if who.answer is None else who.answer.predicted or ""
        return self._page(
            "done.html",
            None,
            token=who.token,
            who=who,
            code=completion_code(who.token),
            method=self.study.arms[who.arm].method,
            answer=class_caption(self.study.schema, self.study.items[who.item].predicted),
            predicted=words.get(predicted, predicted),
        )

    def message(self, message: str, status: int) -> HTMLResponse:
        return self._page("message.html", None, status, message=message)

    def _page(self, name: str, errors: list[tuple[str, str]] | None, status: int = 200, **parts: Any) -> HTMLResponse:
        html = self.templates.get_template(name).render(study=self.study, errors=errors or [], **parts)
        return HTMLResponse(html, 422 if errors else status)


def _judge(directory: str | Path) -> Model:
    from grace.explain.store import load as load_explainer  # here, as it brings torch, which ratings do without

    return load_explainer(Path(directory) / MODEL).model


def _go(token: str) -> RedirectResponse:
    return RedirectResponse(f"/p/{token}", 303)


def _whole(sent: str | None, low: int, high: int) -> int | None:
    if sent is None or not re.fullmatch(r"[0-9]{1,6}", sent, re.ASCII):
        return None
    return int(sent) if low <= int(sent) <= high else None


def _percent(p: float) -> str:
    """Never rounded up to certainty."""
    return f"{p:.0%}" if p < 0.995 else "more than 99%"


def serve(
    directory: str | Path,
    host: str,
    port: int,
    ready: Callable[[str], None],
    allow_host: Sequence[str] = (),
    proxy: Sequence[str] = (),
) -> None:
    """Serve a study until interrupted; `ready` is told the address. Addresses of participants are not logged."""
    try:
        from grace.study.pages import create_app
        from grace.web.hosts import hosts_of
        from grace.web.server import proxies_of, run
    except ImportError as reason:
        raise GraceError(f"the studies' pages need more packages ({reason.name}): {pip_install('web')}") from reason
    hosts, proxies = hosts_of(host, allow_host), proxies_of(proxy)
    run(create_app(directory, hosts), host, port, ready, proxies)
