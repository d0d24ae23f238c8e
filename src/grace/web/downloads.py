"""An explanation as a file: JSON, HTML, SVG or PNG."""

from __future__ import annotations

import io
import json

from fastapi import Response

from grace.explain.explanation import Explanation
from grace.text.sentence import Saying
from grace.web.middleware import PICTURE_POLICY
from grace.web.service import Answer, Served

KINDS = {"json": "application/json", "html": "text/html", "svg": "image/svg+xml", "png": "image/png"}


async def download(served: Served, answer: Answer, kind: str, saying: Saying) -> Response:
    """The file in the language of `saying`; drawing a PNG takes its turn among the slow work. JSON has the words of the
    schema, which hold the translations, and the sentence."""
    e = answer.e if kind == "json" else answer.spoken(saying.get("language") or served.schema.language).e
    if kind == "png":
        content: str | bytes = await served.slow.run(lambda _: png(e))
    elif kind == "json":
        content = json.dumps({**e.to_dict(), "text": e.text(**saying)}, ensure_ascii=False, indent=1)
    else:
        content = e.to_html() if kind == "html" else e.to_svg()
    headers = {
        "Content-Disposition": f'attachment; filename="why.{kind}"',
        "Content-Security-Policy": PICTURE_POLICY,
    }
    return Response(content, media_type=KINDS[kind], headers=headers)


def png(e: Explanation) -> bytes:
    out = io.BytesIO()
    e.plot().savefig(out, format="png", dpi=200)
    return out.getvalue()
