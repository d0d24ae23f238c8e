"""Every address of the OpenAPI description under all checks of schemathesis: what is documented is what comes."""

from __future__ import annotations

from typing import Any

import pytest

from grace.web.pages import create_app
from visitors import evil_model

EXAMPLES = 150
# what fits the description may still be wrong for the model, such as a range that begins above its end
ACCEPTED = ["2xx", "422"]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of schemathesis and its parts
def test_the_api_does_what_its_description_says() -> None:
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis.engine import events, from_schema

    model = evil_model()
    row = model.example(1)
    config = schemathesis.Config.from_dict(
        {
            "seed": 1,
            "generation": {"max-examples": EXAMPLES, "deterministic": True, "database": "none"},
            "checks": {"positive_data_acceptance": {"expected-statuses": ACCEPTED}},
        }
    )
    schema = schemathesis.openapi.from_asgi("/openapi.json", create_app([model]), config=config)

    def before_call(context: Any, case: Any, kwargs: Any) -> None:
        """The description does not say which columns a model has: two of three questions are about a row it knows."""
        body = case.body
        if isinstance(body, dict) and isinstance(body.get("row"), dict) and len(repr(body)) % 3 < 2:
            case.body = {**body, "row": row, **({"model": None} if isinstance(body.get("model"), str) else {})}

    schemathesis.hook(before_call)
    checked: dict[str, int] = {}
    statuses: dict[str, set[int]] = {}
    findings: list[str] = []
    every = list(from_schema(schema).execute())
    schemathesis.hooks.unregister(before_call)
    for event in every:
        if isinstance(event, events.NonFatalError | events.FatalError):
            findings.append(str(event))
        if not isinstance(event, events.ScenarioFinished):
            continue
        found = event.recorder
        for interaction in found.interactions.values():
            assert interaction.response is not None
            statuses.setdefault(found.label, set()).add(interaction.response.status_code)
        for check in (c for checks in found.checks.values() for c in checks):
            checked[check.name] = checked.get(check.name, 0) + 1
            if check.failure_info is not None:
                findings.append(f"{found.label}: {check.failure_info.failure} {check.failure_info.code_sample}")
    assert findings == []
    assert set(statuses) == {"POST /api/explain", "POST /api/predict", "GET /api/schema", "GET /health"}
    assert {200, 405, 422} <= statuses["POST /api/explain"]
    assert len(checked) >= 12
    assert checked["not_a_server_error"] > 2 * EXAMPLES
