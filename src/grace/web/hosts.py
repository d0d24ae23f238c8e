"""Which host names a server answers to, and which pages may send requests to it.

Any website can make a browser send requests to this machine. Two checks prevent that: the `Host` header has to be a
served name (against DNS rebinding), and requests that change something have to come from this server's own pages
(`Sec-Fetch-Site`, `Origin`). Other programs send neither header.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from grace.errors import GraceError
from grace.schema.parsing import comma_separated

ANY = "*"
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")
READING = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Hosts:
    """Served host names: `own` from the address listened at, `allowed` as configured ("*" for any), and with `numeric`
    every IP address, which no DNS record can redirect."""

    own: frozenset[str] = frozenset()
    allowed: frozenset[str] = frozenset({ANY})
    numeric: bool = False

    def serve(self, host: str) -> bool:
        """Whether a `Host` header (with port) names this server."""
        name = name_of(host)
        if ANY in self.allowed or name in self.own or name in self.allowed:
            return True
        return self.numeric and _address(name) is not None

    def cross_site(self, method: str, headers: Mapping[str, str]) -> bool:
        """Whether another site's page makes this request. Following a link from there is allowed."""
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if method in READING:
            followed = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
            return site in ("cross-site", "same-site") and not followed
        if site not in (None, "same-origin", "none"):
            return True
        if origin is None or (origin == "null" and site == "same-origin"):
            return False
        return not self._own_page(origin, headers.get("host", ""))

    def _own_page(self, origin: str, host: str) -> bool:
        sent_from = origin.lower().partition("://")[2]
        return sent_from != "" and (sent_from == host.lower() or name_of(sent_from) in self.allowed)


def hosts_of(host: str, allowed: Iterable[str] = ()) -> Hosts:
    """The host names of a server that listens at `host`; at 0.0.0.0 or :: this machine's names and all IP addresses.
    Names in `allowed` may be separated by commas."""
    names = frozenset(_checked(name) for name in comma_separated(allowed))
    address = _address(host)
    if host and not (address is not None and address.is_unspecified):
        return Hosts(LOCAL | {name_of(f"[{host}]" if ":" in host else host)}, names)
    machine = socket.gethostname().lower()
    short = machine.partition(".")[0]
    return Hosts(LOCAL | {machine, short, f"{short}.local"}, names, numeric=True)


def client_of(address: str) -> str:
    """The client of a request for rate limits: the address, for IPv6 its /64 network."""
    found = _address(address)
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.IPv6Network((found, 64), strict=False))
    return address


def name_of(host: str) -> str:
    """The normalised name in "name:port"; empty if there is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


def _checked(name: str) -> str:
    name = name.strip().lower().removesuffix(".").removeprefix("[").removesuffix("]")
    if name != ANY and _address(name) is None and not NAME.fullmatch(name):
        raise GraceError(
            f"host {name!r}: give a name such as grace.example.org, without http:// and port, or * for any"
        )
    return name


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
