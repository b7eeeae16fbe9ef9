"""Signs people in with an issuer: the authorization code flow of OpenID Connect, with PKCE, state and nonce.

OpenID Connect Core 1.0, section 3.1; RFC 7636 (PKCE); RFC 9700 (security). There is one issuer only, so no answer
can be one of another issuer (RFC 9207), and a token with the nonce of an attempt was made for this client.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING

from packager.base import rest
from packager.base.errors import MlpackError, ToolError, UsageError, reason
from packager.base.problems import show
from packager.base.values import Fields, FieldsError, as_plain, convert
from packager.service.access import tokens
from packager.service.access.tokens import Person
from packager.service.failures import Failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path
    from typing import TypeAlias

    from packager.base.values import Json
    from packager.service.access.issuer_tokens import Issuer
    from packager.service.access.tokens import Caller

    Run: TypeAlias = Callable[[Callable[[], rest.Answer]], Awaitable[rest.Answer]]
    from packager.base.values import FieldsType
    from packager.service.sealing import Sealer
    from packager.service.store.store import Store


PATH = "/sign-in/answer"
"""The path to which the issuer redirects people."""

SECONDS = 600
"""Seconds that people may take at the issuer."""

SESSION_SECONDS = 60 * 60
"""Seconds after which a session ends, if the ID token does not expire before: who still has a session at the issuer
signs in again without a question."""

_LONGEST_SECRET = 1024
_LONGEST_CODE = 4096
_LONGEST_TEXT = 300
_ANSWER_SECONDS = 10.0


class Attempt(Fields, frozen=True):
    """An attempt to sign in, which the browser keeps encrypted while its user is at the issuer."""

    state: str  # the state that the answer must contain, which proves that this browser began the attempt
    nonce: str  # the nonce that the ID token must contain, which proves that it was made for this attempt
    verifier: str  # the code verifier of PKCE, without which the code cannot be exchanged
    then: str  # the path of the view to show after the sign-in
    until: int  # when the attempt ends, in seconds since 1970

    def is_answered_by(self, answer: Mapping[str, str]) -> bool:
        """Whether an answer of the issuer belongs to this attempt, which has not expired."""
        return self.until > time.time() and _is_same(answer.get("state", ""), self.state)


class Signed(Fields, frozen=True):
    """A person who has signed in with the issuer, as the cookie of a session has it."""

    issuer: str
    subject: str  # the identifier of the person at the issuer, independent of the name
    name: str
    groups: list[str]
    until: int  # when the session ends, in seconds since 1970


class Client:
    """The page as a client of the issuer."""

    def __init__(self, issuer: Issuer, name: str, secret: str | None, url: str) -> None:
        self._issuer = issuer
        self._name = name
        self._secret = secret
        self._redirect = url.rstrip("/") + PATH
        # the name of the issuer on the page: its host
        self.label = issuer.settings.issuer.partition("://")[2].partition("/")[0]

    async def begin(self, then: str) -> tuple[str, Attempt]:
        """Return the address at which people sign in, and the attempt for their browser to keep. Raises Failure."""
        endpoint = (await self._issuer.provider()).authorization
        if not endpoint:
            raise Failure("issuer-unreachable", f"{self.label} names no address at which people sign in")
        attempt = Attempt(
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            then=then,
            until=int(time.time()) + SECONDS,
        )
        challenge = hashlib.sha256(attempt.verifier.encode()).digest()
        query = rest.path(
            response_type="code",
            client_id=self._name,
            redirect_uri=self._redirect,
            scope=" ".join(dict.fromkeys(("openid", *self._issuer.settings.scopes))),
            state=attempt.state,
            nonce=attempt.nonce,
            code_challenge=base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            code_challenge_method="S256",
        )
        return _with_query(endpoint, query), attempt

    async def finish(self, attempt: Attempt | None, answer: Mapping[str, str], run: Run) -> Signed:
        """Return the person whom the issuer has redirected back. Raises Failure."""
        if attempt is None or not attempt.is_answered_by(answer):
            began = self._redirect.removesuffix(PATH)
            raise _refused(f"this browser has not begun to sign in at {began}, or more than 10 minutes ago")
        if "error" in answer:
            raise _refused(f"{self.label} has answered {_told(answer)}")
        code = answer.get("code", "")
        if not 0 < len(code) <= _LONGEST_CODE:
            raise _refused(f"{self.label} has answered without a code")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect,
            "code_verifier": attempt.verifier,
        }
        tokens = await self._ask(form, run)
        signed, nonce = await self._signed(tokens)
        if not isinstance(nonce, str) or not _is_same(nonce, attempt.nonce):
            raise _refused("the token was made for another attempt to sign in")
        return signed

    def caller(self, signed: Signed) -> Caller:
        """Return the caller for a person. Raises Failure if the person has no role, or is from another issuer."""
        if signed.issuer != self._issuer.settings.issuer:
            raise _refused("another issuer has vouched for this session")
        return self._issuer.caller_of(Person(signed.subject, signed.name, tuple(signed.groups)))

    async def _signed(self, tokens: Mapping[str, Json]) -> tuple[Signed, Json]:
        """Return the person in the tokens of an answer, and the nonce of the ID token. Raises Failure."""
        text = tokens.get("id_token")
        if not isinstance(text, str):
            raise _refused(f"{self.label} has answered without an ID token")
        claims = await self._issuer.claims(text, self._name)
        person = self._issuer.person(claims)
        self._issuer.caller_of(person)  # a person without a role gets no session
        signed = Signed(
            issuer=self._issuer.settings.issuer,
            subject=person.subject,
            name=person.name,
            groups=list(person.groups),
            until=int(min(claims["exp"], time.time() + SESSION_SECONDS)),
        )
        return signed, claims.get("nonce")

    async def _ask(self, form: Mapping[str, str], run: Run) -> Mapping[str, Json]:
        """Return the tokens for a code. Raises Failure."""
        provider = await self._issuer.provider()
        place, _, query = provider.token.partition("?")
        headers: dict[str, str] = {}
        if self._secret is None:
            form = {**form, "client_id": self._name}
        elif provider.takes_basic:
            headers["Authorization"] = rest.basic(self._name, self._secret)
        else:
            form = {**form, "client_id": self._name, "client_secret": self._secret}
        try:
            ask = partial(rest.post_form, rest.server(place, None), f"?{query}" if query else "", form, headers=headers)
            answer = await run(partial(ask, seconds=_ANSWER_SECONDS))
        except Failure:
            raise
        except MlpackError as error:
            raise Failure("issuer-unreachable", str(error)) from None
        body = answer.body if isinstance(answer.body, dict) else {}
        if answer.is_ok:
            return body
        if body.get("error") == "invalid_grant":  # the code was used
            raise _refused(f"{self.label} has answered {_told(body)}")
        told = _told(body) if "error" in body else f"with status {answer.status}"
        raise Failure("issuer-unreachable", f"{self.label} has answered {told}")


def read_secret(path: Path) -> str:
    """Return the secret of the page in a file: one line. Raises ToolError or UsageError."""
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST_SECRET + 2).decode("ascii", errors="replace").strip()
    except OSError as error:
        raise ToolError(f"oidc.client_secret_file: {path} cannot be read: {reason(error)}") from None
    if not (text.isascii() and text.isprintable() and 0 < len(text) <= _LONGEST_SECRET):
        message = f"oidc.client_secret_file: {path}: expected one line of at most {_LONGEST_SECRET} ASCII characters"
        raise UsageError(message)
    return text


def _told(answer: Mapping[str, Json]) -> str:
    """Return the error in an answer of the issuer for a message; the answer may contain anything."""
    error, description = answer.get("error"), answer.get("error_description")
    if not isinstance(description, str):
        return show(error)
    shown = description if len(description) <= _LONGEST_TEXT else f"{description[:_LONGEST_TEXT]}..."
    return f"{show(error)}: {shown!r}"


def _with_query(url: str, query: str) -> str:
    return f"{url}&{query[1:]}" if "?" in url else url + query


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="replace"), other.encode(errors="replace"))


def _refused(why: str) -> Failure:
    return Failure("unauthenticated", why)


COOKIE = "mlpack_session"
"""The name of the cookie of a session."""

ATTEMPT_COOKIE = "mlpack_sign_in"
"""The name of the cookie of an attempt to sign in with the issuer."""

TOKEN_SECONDS = 12 * 60 * 60
"""Seconds after which a session that began with a token ends."""

_LONGEST_COOKIE = 4096


class SignedWithToken(Fields, frozen=True):
    """A person who has signed in with a token, by the id of the token, and when the session ends."""

    token: str
    until: int


class Sessions:
    """The sessions of a server."""

    def __init__(self, sealer: Sealer, store: Store, client: Client | None) -> None:
        self._sealer = sealer
        self._store = store
        self._client = client

    def begin_with_token(self, text: str) -> tuple[Caller, str] | None:
        """Return the caller and the cookie of a session that begins with a token; None if the token is not valid."""
        row = tokens.of_text(self._store, text)
        if row is None or (caller := tokens.caller_of(self._store, row)) is None:
            return None
        return caller, self.cookie(SignedWithToken(token=row.id, until=int(time.time()) + TOKEN_SECONDS))

    def cookie(self, content: Fields) -> str:
        """Return the cookie of a session, or of an attempt to sign in."""
        sealed = self._sealer.seal(as_plain(content), type(content).__name__)  # the name of no job
        return base64.urlsafe_b64encode(sealed).decode()

    async def caller(self, cookie: str) -> Caller | None:
        """Return the caller of a session; None if the session has ended. Raises Failure."""
        by_token = self.read(cookie, SignedWithToken)
        if by_token is not None:
            row = await asyncio.to_thread(self._store.tokens.by_id, by_token.token)
            is_over = by_token.until <= time.time()
            return None if is_over else await asyncio.to_thread(tokens.caller_of, self._store, row)
        signed = self.read(cookie, Signed)
        if signed is None or self._client is None or signed.until <= time.time():
            return None
        return self._client.caller(signed)

    def read(self, cookie: str, kind: type[FieldsType]) -> FieldsType | None:
        """Return the content of a cookie; None if this server has not made the cookie for this purpose."""
        if not 0 < len(cookie) <= _LONGEST_COOKIE:
            return None
        try:
            return convert(self._sealer.open(base64.urlsafe_b64decode(cookie), kind.__name__), kind)
        except (binascii.Error, ValueError, ToolError, FieldsError):
            return None
