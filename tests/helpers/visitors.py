"""The served models of the tests, and a page as a browser sees it."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from html.parser import HTMLParser

from fastapi import FastAPI

from grace.study.making import embedded
from grace.web.server import listen, server_of
from grace.web.service import Served
from studies import explainer


@cache
def evil_model() -> Served:
    """Markup in every name."""
    return Served("evil<b>", explainer())


@cache
def cancer_model() -> Served:
    made, rows = embedded("cancer95")
    return Served("cancer95", made, rows.head(1), "the patient")


class Tags(HTMLParser):
    """The elements of a page, its form as a browser would send it, and the text in it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.fields: list[tuple[str, str]] = []
        self._select, self._label = "", False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {k: v or "" for k, v in attrs}
        self._label = tag == "label" or (self._label and tag in ("input", "span"))
        if self._label and tag == "input":
            given["in-label"] = ""
        self.tags.append((tag, given))
        ours = given.get("type") not in ("file", "range", "search") and given.get("name")
        ticked = given.get("type") != "checkbox" or "checked" in given
        if tag == "input" and ours and ticked and given["name"] not in ("number", "impute"):
            self.fields.append((given["name"], given.get("value", "")))
        if tag == "select":
            self._select = given["name"]
        if tag == "option" and "selected" in given:
            self.fields.append((self._select, given["value"]))

    def handle_endtag(self, tag: str) -> None:
        self._label = self._label and tag != "label"

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def of(self, tag: str) -> list[dict[str, str]]:
        return [given for name, given in self.tags if name == tag]


def says(html: str) -> str:
    found = re.search(r'id="says"[^>]*>(.*?)</p>', html, re.DOTALL)
    assert found is not None, html
    return found[1]


@contextmanager
def serving_app(app: FastAPI) -> Iterator[int]:
    """A real server of an app in a thread, as the commands run it; its port on 127.0.0.1."""
    server, place = server_of(app), listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
    thread.start()
    try:
        yield place.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        place.close()


def dial(port: int, source: str = "127.0.0.1") -> socket.socket:
    """A connection from one of this machine's own addresses."""
    return socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0))


def request(path: str, body: object = None, **headers: str) -> bytes:
    """The bytes of a request; with a body, a POST of JSON."""
    sent = b"" if body is None else json.dumps(body).encode()
    lines = [
        f"{'GET' if body is None else 'POST'} {path} HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {len(sent)}",
    ]
    lines += [] if body is None else ["Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + sent


def response(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer."""
    got = http.client.HTTPResponse(connection)
    got.begin()
    return got.status, {name.lower(): value for name, value in got.getheaders()}, got.read()
