"""A study never shows its arm: but for the explanation's words and drawing, both arms send a browser the same."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient

from grace.study import design, making
from grace.study.pages import create_app
from grace.study.store import Store
from studies import begin, explainer, study

ADDRESSES = {"href", "src", "action", "srcset", "poster", "data", "formaction"}
NAMES = {"class", "id", "name", "for", "style", "aria-describedby", "role", "type", "tabindex", "lang"}
EXPLANATION = {"alt"}  # the sentence itself


@dataclass
class Seen:
    """All that was served in one arm beside the words of the explanation."""

    addresses: list[str] = field(default_factory=list)
    marks: list[tuple[str, str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    root: list[dict[str, str]] = field(default_factory=list)


class Page(HTMLParser):
    def __init__(self, html: str, token: str, seen: Seen) -> None:
        super().__init__()
        self.token, self.seen = token, seen
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            said = (value or "").replace(self.token, "TOKEN")
            assert name in ADDRESSES | NAMES | EXPLANATION or not said.lower().count("lime"), (name, said)
            if name in ADDRESSES:
                self.seen.addresses.append(said)
            if name not in EXPLANATION:
                self.seen.marks.append((tag, name, said))

    def handle_data(self, data: str) -> None:
        self.seen.words.append(data)


def look(client: TestClient, address: str, seen: Seen, token: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    headers = {k: v.replace(token, "TOKEN") for k, v in answer.headers.items() if k not in ("content-length", "date")}
    seen.headers.append(headers)
    return answer.text


def visit(client: TestClient, place: str) -> Seen:
    """Every answer that a browser gets on the way to the task, and while it is shown and sent back."""
    seen, token = Seen(), place.removeprefix("/p/")
    Page(look(client, place, seen, token), token, seen)
    Page(client.post(place, data={"intuitive": "99"}).text, token, seen)
    for address in sorted(set(seen.addresses)):
        if address.startswith("/static/"):
            seen.styles.append(look(client, address, seen, token))
        if address.endswith("picture.svg"):
            picture = ElementTree.fromstring(look(client, address.replace("TOKEN", token), seen, token))
            seen.styles += [e.text or "" for e in picture.iter() if e.tag.endswith("style")]
            seen.root.append({k: v for k, v in picture.attrib.items() if k not in ("height", "viewBox", "aria-label")})
            for e in picture.iter():
                seen.marks += [("svg", name, e.get(name, "")) for name in ("class", "style", "id") if e.get(name)]
    return seen


@pytest.mark.parametrize("task", design.TASKS)
def test_both_arms_look_the_same_to_a_browser(tmp_path: Path, task: str) -> None:
    made = study(task, pictures="both")
    making.write(made, explainer(), tmp_path / "s")
    client = TestClient(create_app(tmp_path / "s"))
    arms: dict[tuple[bool, str], Seen] = {}
    for _ in range(len(made.arms)):
        client.cookies.clear()
        place = begin(client)
        arm = made.arms[Store(tmp_path / "s" / "responses.sqlite").participants()[-1].arm]
        arms[arm.picture, arm.method] = visit(client, place)
    assert len(arms) == 4
    for picture in (True, False):
        one, other = arms[picture, "grace"], arms[picture, "lime"]
        assert one.addresses == other.addresses
        assert one.marks == other.marks
        assert one.headers == other.headers
        assert one.styles == other.styles
        assert one.root == other.root
        assert len(one.root) == picture
        account = {m: made.items[0].accounts[m] for m in design.METHODS}
        for seen, method in ((one, "grace"), (other, "lime")):
            texts = (account[method].text, account[method].text_beside_picture)
            rest = [w for w in seen.words if w.strip() not in texts]
            assert not re.search("lime|grace", "".join(rest), re.IGNORECASE)
        assert [w for w in one.words if w in other.words] == [w for w in other.words if w in one.words]
