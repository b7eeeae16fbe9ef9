"""An OpenID Connect issuer on this machine, which checks requests of clients by RFC 6749 and RFC 7636."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.web import answering

if TYPE_CHECKING:
    from collections.abc import Iterator

RSA = rsa.generate_private_key(65537, 2048)
CURVE = ec.generate_private_key(ec.SECP256R1())
CLIENT = "mlpack-page"
SECRET = "s3cret: of+the%page"  # noqa: S105 - of this fake; it needs to be quoted


def public(key: Any, identifier: str, **more: Any) -> dict[str, Any]:
    algorithm = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": identifier, "use": "sig", **more}


class FakeIssuer:
    """An issuer.

    Attributes:
        keys: The published keys.
        name: The issuer name in its configuration; None for its address.
        is_away: Whether requests for the configuration, keys and tokens fail with status 500.
        requests: The path of each request.
        secret: The secret of the client; None for a public client.
        document: Additional keys of its configuration.
        claims: Additional claims of ID tokens; a claim that is None is left out.
        refused: The status and the body that replace the token response; None to send tokens.
    """

    def __init__(self) -> None:
        self.keys = [public(RSA, "r1"), public(CURVE, "e1")]
        self.name: str | None = None
        self.is_away = False
        self.requests: list[str] = []
        self.url = ""
        self.secret: str | None = SECRET
        self.document: dict[str, Any] = {}
        self.claims: dict[str, Any] = {}
        self.refused: tuple[int, Any] | None = None
        self._codes: dict[str, dict[str, str]] = {}

    def get(self, path: str) -> tuple[int, str, Any]:
        parts = urlsplit(path)
        self.requests.append(parts.path)
        if self.is_away:
            return 500, "text/plain", "away"
        if parts.path == "/.well-known/openid-configuration":
            return (
                200,
                "application/json",
                {
                    "issuer": self.name or self.url,
                    "jwks_uri": f"{self.url}/keys",
                    "authorization_endpoint": f"{self.url}/authorize?policy=p1",
                    "token_endpoint": f"{self.url}/token?policy=p1",
                    "end_session_endpoint": f"{self.url}/logout",
                    "authorization_response_iss_parameter_supported": True,
                    **self.document,
                },
            )
        if parts.path == "/authorize":
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            link = html.escape(self.authorize(query))
            return 200, "text/html", f'<!doctype html><title>Issuer</title><a href="{link}">Continue as ada</a>'
        return 200, "application/jwk-set+json", {"keys": self.keys}

    def authorize(self, query: dict[str, str]) -> str:
        """Return the redirect address after a user has signed in."""
        assert query["policy"] == "p1"
        assert (query["response_type"], query["client_id"]) == ("code", CLIENT)
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe(8)
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], 'iss': self.url})}"

    def post(self, path: str, header: str, form: dict[str, str]) -> tuple[int, str, Any]:
        assert path == "/token?policy=p1"
        self.requests.append(f"/token {form['grant_type']}")
        if self.is_away:
            return 500, "text/plain", "away"
        if self.refused:
            return self.refused[0], "application/json", self.refused[1]
        if not self._is_client(header, form):
            return 401, "application/json", {"error": "invalid_client"}
        query = self._codes.pop(form["code"], None)
        claims = {"nonce": query["nonce"]} if query else {}
        if error := self._problem(query, form):
            return 400, "application/json", {"error": "invalid_grant", "error_description": error}
        return 200, "application/json", self._answer(claims)

    @staticmethod
    def _problem(query: dict[str, str] | None, form: dict[str, str]) -> str | None:
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        if query is None or query["redirect_uri"] != form["redirect_uri"]:
            return "Code not valid"
        return None if query["code_challenge"] == challenge.decode() else "PKCE failed"

    def _is_client(self, header: str, form: dict[str, str]) -> bool:
        if self.secret is None:
            return form.get("client_id") == CLIENT and not header
        if header:
            name, _, secret = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
            return (unquote_plus(name), unquote_plus(secret)) == (CLIENT, self.secret)
        return (form.get("client_id"), form.get("client_secret")) == (CLIENT, self.secret)

    def _answer(self, claims: dict[str, Any]) -> dict[str, Any]:
        answer = {"access_token": "x", "token_type": "Bearer"}
        answer["id_token"] = self.token(**{"aud": CLIENT, "sub": "u-1", **claims, **self.claims})
        return answer

    def token(self, key: Any = RSA, identifier: str | None = "r1", algorithm: str = "RS256", **claims: Any) -> str:
        """Return a signed token; a claim that is None is left out."""
        body = {
            "iss": self.url,
            "aud": "mlpack",
            "exp": int(time.time()) + 300,
            "sub": "u-1",
            "preferred_username": "ada",
            "groups": ["ml-users", "else"],
            **claims,
        }
        body = {name: value for name, value in body.items() if value is not None}
        headers = {"kid": identifier} if identifier else {}
        return jwt.encode(body, key, algorithm=algorithm, headers=headers)


@contextmanager
def running(host: str = "127.0.0.1") -> Iterator[FakeIssuer]:
    """Yield a running issuer. For browsers, the host `localhost` is another site than 127.0.0.1."""
    fake = FakeIssuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(*fake.get(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            assert self.headers["Content-Type"] == "application/x-www-form-urlencoded"
            form = {name: values[0] for name, values in parse_qs(body, strict_parsing=True).items()}
            self._send(*fake.post(self.path, self.headers.get("Authorization", ""), form))

        def _send(self, status: int, kind: str, body: Any) -> None:
            content = body.encode() if kind == "text/html" else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            return

    with answering(Handler) as port:
        fake.url = f"http://{host}:{port}"
        yield fake
