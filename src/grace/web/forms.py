"""What a form with a file sends."""

from __future__ import annotations

from email.message import Message

from fastapi import HTTPException, Request

from grace.web.middleware import MOST_BYTES

MOST_FIELDS = 20  # the page's own form has five and a file


async def sent_fields(request: Request) -> dict[str, str]:
    """The fields of a multipart form as text, a file like any other field."""
    kind = Message()
    kind["content-type"] = request.headers.get("content-type", "")
    if kind.get_content_type() != "multipart/form-data":
        raise HTTPException(415, "Send the row by the form on the page, or to /api/explain as JSON.")
    if (kind.get_content_charset() or "utf-8") != "utf-8":  # some of Python's decoders take the square of the length
        raise HTTPException(415, "Send the form in UTF-8.")
    fields: dict[str, str] = {}
    async with request.form(max_files=1, max_fields=MOST_FIELDS, max_part_size=MOST_BYTES) as form:
        for name, value in form.multi_items():
            fields[name] = value if isinstance(value, str) else (await value.read()).decode("utf-8", "replace")
    return fields
