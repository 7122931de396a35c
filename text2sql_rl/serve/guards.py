"""Which requests are answered: the doors that other web sites would try.

In: a request's headers. Out: None, or a `Refusal`. The server has no users and no cookies, so what must hold is that no
other site's script reaches it: not by a name that points here (Host), not by a form or a fetch from elsewhere (Origin,
Sec-Fetch-Site, a content type that needs asking first, a token that only its own pages know). Not here: sockets.
"""

from __future__ import annotations

import ipaddress
import secrets
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus

MOST_BODY_BYTES = 64 << 10
TOKEN_HEADER = "X-Text2sql-Token"
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ELSEWHERE = ("cross-site", "same-site")
NO_CONTENT_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not answered."""

    status: HTTPStatus
    words: str


def refuse_host(headers: Message, bound: str) -> Refusal | None:
    """Refuse a request that came under a name which is not this server's: another site may point its name here.

    An address is no name: whoever writes one means this machine. So is whatever the user bound.

    Args:
        headers: of the request.
        bound: the host that the server was told to listen on.
    """
    name = host_name(headers.get("Host", ""))
    if name == "localhost" or (name and name == bound.lower()):
        return None
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return Refusal(HTTPStatus.FORBIDDEN, "This server answers to localhost and to addresses only.")
    if is_loopback(bound) and not address.is_loopback:
        return Refusal(HTTPStatus.FORBIDDEN, "This server answers on the loopback only.")
    return None


def refuse_get(headers: Message) -> Refusal | None:
    """Refuse what another site's page loads in passing: making a page costs time. Following a link is not that."""
    if headers.get("Sec-Fetch-Site") in _ELSEWHERE and headers.get("Sec-Fetch-Mode") != "navigate":
        return Refusal(HTTPStatus.FORBIDDEN, "Another site asks.")
    return None


def refuse_post(headers: Message, token: str) -> Refusal | None:
    """Refuse a POST that none of this server's own pages sent, or whose body is not what such a page sends."""
    origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site")
    if origin is not None and origin != f"http://{headers.get('Host', '')}":
        return Refusal(HTTPStatus.FORBIDDEN, "Another site asks.")
    if site not in (None, "same-origin"):
        return Refusal(HTTPStatus.FORBIDDEN, "Another site asks.")
    if not secrets.compare_digest(headers.get(TOKEN_HEADER, "").encode(), token.encode()):
        return Refusal(HTTPStatus.FORBIDDEN, "The server was started anew: load the page again.")
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() != "application/json":
        return Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be JSON.")
    length = headers.get("Content-Length", "")
    if "Transfer-Encoding" in headers or not (length.isascii() and length.isdecimal()):
        return Refusal(HTTPStatus.LENGTH_REQUIRED, "The body's length must be told.")
    if len(length) > 9 or int(length) > MOST_BODY_BYTES:
        return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"At most {MOST_BODY_BYTES >> 10} kB.")
    return None


def host_name(host: str) -> str:
    """A Host header without its port: a tunnel may have another one."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on `host`."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
