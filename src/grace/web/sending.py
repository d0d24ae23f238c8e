"""What a form with a file sends."""

from __future__ import annotations

from email.parser import BytesParser
from email.policy import HTTP

from fastapi import HTTPException, Request


async def sent_row(request: Request) -> dict[str, str]:
    """The fields of a multipart form as text, a file like any other field. The body is limited by the server."""
    kind = request.headers.get("content-type", "")
    if not kind.startswith("multipart/form-data"):
        raise HTTPException(415, "Send the row by the form on the page, or to /api/explain as JSON.")
    head = f"Content-Type: {kind}\r\n\r\n".encode("latin-1", "replace")
    message = BytesParser(policy=HTTP).parsebytes(head + await request.body())
    fields: dict[str, str] = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            fields[name] = content.decode("utf-8", "replace")
    return fields
