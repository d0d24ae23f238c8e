"""Hostile visitors: other sites, other names, floods, and requests that never end."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from grace import GraceError, __version__
from grace.cli import main
from grace.problem.settings import MOST, Settings
from grace.study import pages as study_pages
from grace.web import middleware, server
from grace.web.hosts import Hosts, client_of, hosts_of
from grace.web.middleware import MAX_BYTES
from grace.web.pages import create_app
from grace.web.rows import parse_table
from grace.web.service import Served
from studies import begin, explainer, written
from visitors import dial, request, response, serving_app

# -- names and origins ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listening", "allowed", "host", "served"),
    [
        ("127.0.0.1", (), "localhost:8000", True),
        ("127.0.0.1", (), "127.0.0.1", True),
        ("127.0.0.1", (), "[::1]:8000", True),
        ("127.0.0.1", (), "LocalHost.:8000", True),
        ("127.0.0.1", (), "evil.example", False),
        ("127.0.0.1", (), "localhost.evil.example", False),
        ("127.0.0.1", (), "10.1.2.3", False),
        ("127.0.0.1", (), "", False),
        ("127.0.0.1", (), "[", False),
        ("127.0.0.1", ("a.example, B.example",), "b.example:80", True),
        ("127.0.0.1", ("a.example",), "b.example", False),
        ("127.0.0.1", ("*",), "b.example", True),
        ("192.168.1.5", (), "192.168.1.5:8000", True),
        ("192.168.1.5", (), "192.168.1.6:8000", False),
        ("grace.intern", (), "grace.intern", True),
        ("fe80::1", (), "[fe80::1]:80", True),
        ("0.0.0.0", (), "10.1.2.3:8000", True),
        ("0.0.0.0", (), socket.gethostname(), True),
        ("::", (), "[2001:db8::1]", True),
        ("0.0.0.0", (), "evil.example", False),
    ],
)
def test_names_that_are_served(listening: str, allowed: tuple[str, ...], host: str, served: bool) -> None:
    assert hosts_of(listening, allowed).serve(host) == served


def test_a_name_is_written_without_scheme_and_port() -> None:
    for wrong in ("http://a.example", "a.example:80", "a b", "*.example"):
        with pytest.raises(GraceError, match=r"such as grace\.example\.org"):
            hosts_of("127.0.0.1", (wrong,))
    for command in (("serve", "--demo"), ("study", "serve", ".")):
        said = CliRunner().invoke(main, [*command, "--port", "0", "--allow-host", "http://x"])
        assert (said.exit_code, "without http://" in said.output) == (1, True)
        said = CliRunner().invoke(main, [*command, "--port", "0", "--proxy", "nginx"])
        assert (said.exit_code, "give its address" in said.output) == (1, True)


@given(st.text(max_size=30))
def test_no_host_breaks_the_check(host: str) -> None:
    assert hosts_of("127.0.0.1").serve(host) in (True, False)
    assert Hosts().serve(host)
    assert Hosts().cross_site("POST", {"host": host, "origin": f"http://{host}"}) == (host == "")


OTHERS: list[dict[str, str]] = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:3000"},
    {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:8000"},
]
OWN: list[dict[str, str]] = [
    {},
    {"Origin": "http://localhost:8000"},
    {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
    {"Origin": "http://localhost:8000", "Sec-Fetch-Site": "same-origin"},
    {"Origin": "https://grace.example"},
    {"Sec-Fetch-Site": "none"},
]


@pytest.fixture(scope="module")
def local(evil: Served) -> TestClient:
    return TestClient(create_app([evil], hosts_of("127.0.0.1", ["grace.example"])), base_url="http://localhost:8000")


def test_what_another_site_sends_is_refused(local: TestClient, evil: Served) -> None:
    body = {"row": evil.example(1)}
    pasted = {"text": (None, json.dumps(evil.example(1)))}
    for headers in OWN:
        assert local.post("/api/predict", json=body, headers=headers).status_code == 200, headers
        assert local.post("/row", files=pasted, headers=headers).status_code == 200, headers
    for headers in OTHERS:
        answer = local.post("/api/predict", json=body, headers=headers)
        assert (answer.status_code, list(answer.json())) == (403, ["error"]), headers
        page = local.post("/row", files=pasted, headers=headers)
        assert (page.status_code, "another site" in page.text) == (403, True)
        assert page.headers["content-security-policy"]


def test_links_from_elsewhere_work_and_hidden_requests_do_not(local: TestClient) -> None:
    linked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert local.get("/", headers=linked).status_code == 200
    for dest, mode in (("image", "no-cors"), ("iframe", "navigate"), ("empty", "cors")):
        headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
        assert local.get("/more", headers=headers).status_code == 403


def test_another_name_is_refused(local: TestClient, evil: Served) -> None:
    for path in ("/", "/api/schema", "/health", "/static/page.css"):
        answer = local.get(path, headers={"Host": "evil.example"})
        assert answer.status_code == 421
        assert "does not go by that name" in answer.text
        assert local.get(path, headers={"Host": "grace.example"}).status_code == 200
    refused = local.post("/api/predict", json={"row": evil.example(1)}, headers={"Host": "evil.example"})
    assert list(refused.json()) == ["error"]


def test_a_study_has_the_same_guard(tmp_path: Path) -> None:
    written(tmp_path / "s", "rate")
    app = study_pages.create_app(tmp_path / "s", hosts_of("127.0.0.1"))
    client = TestClient(app, base_url="http://localhost:8000")
    place = begin(client)
    assert client.get(place).status_code == 200
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 421
    for headers in OTHERS:
        assert client.post(f"{place}/withdraw", headers=headers).status_code == 403
    assert client.get("/health").json() == {"status": "ok", "version": __version__}
    refused = client.put(place)
    assert (refused.status_code, set(refused.headers["allow"].split(", "))) == (405, {"GET", "HEAD", "POST"})
    assert client.head(place).status_code == 200
    assert client.post("/start", content=b"x" * (MAX_BYTES + 1)).status_code == 413


# -- methods, health, description --------------------------------------------------------------


def test_head_is_get_without_the_body(local: TestClient) -> None:
    for path in ("/", "/api", "/api/schema", "/health", "/openapi.json", "/static/page.css", "/download/why.svg?row=1"):
        got, head = local.get(path), local.head(path)
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers["content-length"] == str(len(got.content))
        assert head.headers["content-type"] == got.headers["content-type"]
    assert local.head("/nothing").status_code == 404


def test_a_refused_method_says_which_are_allowed(local: TestClient) -> None:
    for method, path, allowed in (
        ("GET", "/api/explain", "POST"),
        ("HEAD", "/api/explain", "POST"),
        ("DELETE", "/api/explain", "POST"),
        ("OPTIONS", "/api/schema", "GET, HEAD"),
        ("POST", "/", "GET, HEAD"),
        ("PUT", "/static/page.css", "GET, HEAD"),
    ):
        answer = local.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed), path


def test_health_is_cheap_and_never_waits(local: TestClient, evil: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grace.web.queues.MAX_WAITING", 0)
    said = local.get("/health")
    assert said.json() == {"status": "ok", "models": ["evil<b>"], "version": __version__}
    assert local.get("/").status_code == 503


def test_every_status_is_described(local: TestClient) -> None:
    paths = local.get("/openapi.json").json()["paths"]
    for path, statuses in (
        ("/api/explain", "200 400 403 405 408 413 421 422 429 500 503"),
        ("/api/schema", "200 403 405 408 413 421 500"),
    ):
        (route,) = paths[path].values()
        assert set(route["responses"]) == set(statuses.split())
        models = [a["content"]["application/json"]["schema"] for s, a in route["responses"].items() if s != "200"]
        assert all(m == {"$ref": "#/components/schemas/Error"} for m in models)


# -- numbers and texts of any size --------------------------------------------------------------


@pytest.mark.parametrize(
    "part",
    [
        {"max_features": 2**63},
        {"max_features": 10**40},
        {"n": 2**63},
        {"seed": 2**64},
        {"seed": False},
        {"n": "2"},
        {"prove": 1},
        {"impute": "yes"},
        {"budget": 1e308},
        {"gamma": -1e308},
        {"costs": {"age": 10**400}},
        {"costs": {"age": "x"}},
        {"costs": {str(i): "x" for i in range(40_000)}},
        {"ranges": {"age": [-(10**400), 10**400]}},
        {"ranges": {"age": {"a": 1}}},
        {"ranges": {str(i): 1 for i in range(40_000)}},
        {"frozen": [1] * 100_000},
        {"row": {"age": "9" * 100_000}},
        {"row": {"home": "9" * 100_000}},
        {"style": "\ud800"},
        {"\ud800": 1},
        {str(i): 1 for i in range(40_000)},
    ],
)
def test_no_number_or_text_is_a_fault_of_the_server(local: TestClient, evil: Served, part: dict[str, Any]) -> None:
    row = {**evil.example(1), **part.get("row", {})}
    begun = time.perf_counter()
    body = json.dumps({**part, "row": row})
    answer = local.post("/api/explain", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, list(answer.json())) == (422, ["error"]), answer.text[:200]
    assert len(answer.text) < 1000
    assert time.perf_counter() - begun < 5


def test_numbers_that_json_should_not_have(local: TestClient, evil: Served) -> None:
    row = json.dumps(evil.example(1))
    json_kind = {"content-type": "application/json"}
    for more in ('"budget": Infinity', '"gamma": NaN', '"costs": {"age": NaN}', '"ranges": {"age": [NaN, 1]}'):
        answer = local.post("/api/explain", content=f'{{"row": {row}, {more}}}', headers=json_kind)
        assert (answer.status_code, list(answer.json())) == (422, ["error"]), more
    for body in ("[" * 100_000, f'{{"row": {{"age": {"9" * 100_000}}}}}'):
        answer = local.post("/api/explain", content=body, headers=json_kind)
        assert (answer.status_code, list(answer.json())) == (400, ["error"])


def test_settings_are_bounded() -> None:
    for name in ("max_features", "n", "steps", "neighbours"):
        assert getattr(Settings(**{name: MOST}), name) == MOST  # type: ignore[arg-type]
        for number in (MOST + 1, 2**63, 10**5000, -(10**5000), 0):
            with pytest.raises(GraceError, match=f"{name}=.*at (least 1|most)"):
                Settings(**{name: number})  # type: ignore[arg-type]
    for calls in (2**63, -1, 10**5000):
        with pytest.raises(GraceError, match="max_calls="):
            Settings(max_calls=calls)


@pytest.mark.parametrize(
    "text",
    [
        ",".join(map(str, range(49_000))) + "\n1",
        ",".join(map(str, range(150_000))) + "\n1",
        "a," * 400_000 + "\n1",
        "a\n" + "1\n" * 500_000 + "1,2",
        'a\n"' + '""' * 500_000,
        "[" * 1_000_000,
        '{"a":' * 170_000,
        '{"a":' + "9" * 1_000_000 + "}",
    ],
)
def test_a_pasted_table_takes_linear_time(text: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(GraceError) as reason:
        parse_table(text)
    assert time.perf_counter() - begun < 5  # comparing all names with each other took minutes
    assert len(str(reason.value)) < 300


def test_forms_are_read_with_limits(local: TestClient) -> None:
    many = {f"f{i}": (None, "x") for i in range(100)}
    assert local.post("/row", files=many).status_code == 400
    assert local.post("/row", files=[("file", ("a", b"x")), ("file", ("b", b"x"))]).status_code == 400
    for kind in ("multipart/form-data", "multipart/form-data; boundary=B; charset=punycode"):
        assert local.post("/row", content=b"--B", headers={"content-type": kind}).status_code in (400, 415)
    half = local.post("/row", files={"text": (None, '{"\\ud800": 1}')})
    assert half.status_code == 422


# -- requests that never end ---------------------------------------------------------------------


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.5)
    monkeypatch.setattr(middleware, "BODY_SECONDS", 0.5)
    with serving_app(create_app([Served("own", explainer())], hosts_of("127.0.0.1"))) as port:
        yield port


def trickle(connection: socket.socket, data: bytes = b"a") -> None:
    """Send a byte at a time, until the other side has had enough."""

    def send() -> None:
        try:
            for _ in range(200):
                connection.sendall(data)
                time.sleep(0.05)
        except OSError:
            pass

    threading.Thread(target=send, daemon=True).start()


def test_a_head_that_never_ends(hurried: int) -> None:
    with dial(hurried) as nothing:
        assert nothing.recv(1) == b""
    with dial(hurried) as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ")
        trickle(slow)
        begun = time.perf_counter()
        assert response(slow)[0] == 408
        assert time.perf_counter() - begun < 5
    with dial(hurried) as kept:  # a second request on a connection that is kept open
        kept.sendall(request("/health"))
        assert response(kept)[0] == 200
        kept.sendall(b"GET /hea")
        trickle(kept)
        assert response(kept)[0] == 408


def test_a_body_that_never_ends(hurried: int) -> None:
    for path in ("/api/predict", "/row"):
        with dial(hurried) as slow:
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
            slow.sendall(head.encode())
            trickle(slow)
            status, headers, body = response(slow)
            assert (status, headers["connection"]) == (408, "close")
            assert b"did not arrive" in body
    with dial(hurried) as endless:
        endless.sendall(b"POST /row HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        part = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        for _ in range(17):
            endless.sendall(part)
        assert response(endless)[0] == 413


def test_others_are_served_meanwhile(hurried: int) -> None:
    held = [dial(hurried) for _ in range(30)]
    for connection in held:
        connection.sendall(b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
    with dial(hurried) as other:
        other.sendall(request("/health"))
        assert response(other)[0] == 200
    assert {response(connection)[0] for connection in held} == {408}
    for connection in held:
        connection.close()


def test_clients_are_told_apart_by_network() -> None:
    assert client_of("10.0.0.1") != client_of("10.0.0.2")
    assert client_of("2001:db8::1") == client_of("2001:db8::2") != client_of("2001:db8:0:1::1")
    assert client_of("::ffff:10.0.0.1") == client_of("10.0.0.1")
