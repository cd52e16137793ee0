"""An OpenID provider on loopback, for the tests: Authlib's own server, which signs in the person in
`signs_in`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin, grants
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import UserInfo
from authlib.oidc.core.grants import OpenIDCode
from flask import Flask, jsonify
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

CLIENT, SECRET = "depots", "what the provider gave the page"


@dataclass
class Code:
    """An issued authorization code."""

    client_id: str
    redirect_uri: str
    scope: str
    nonce: str | None
    code_challenge: str
    code_challenge_method: str
    auth_time: int = 0

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str | None:
        return self.nonce

    def get_auth_time(self) -> int:
        return self.auth_time

    def get_acr(self) -> None:
        return None

    def get_amr(self) -> None:
        return None


class Client(ClientMixin):  # type: ignore[misc]
    """The only client that the provider knows."""

    client_id = CLIENT

    def __init__(self, redirect_uri: str) -> None:
        self._redirect_uri = redirect_uri

    def get_client_id(self) -> str:
        return CLIENT

    def get_default_redirect_uri(self) -> str:
        return self._redirect_uri

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri == self._redirect_uri

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == SECRET

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "client_secret_basic"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "authorization_code"


@dataclass
class Provider:
    """`signs_in` holds the claims of its id token, `tells` those of its userinfo endpoint;
    `audience` and `called` can be set to wrong values."""

    redirect_uri: str
    signs_in: dict[str, Any] = field(default_factory=dict)
    tells: Any = field(default_factory=dict)
    issuer: str = ""
    called: str | None = None
    audience: str = CLIENT
    codes: dict[str, Code] = field(default_factory=dict)
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "k1"}))


def _app(provider: Provider) -> Flask:
    app = Flask("provider")
    server = AuthorizationServer(
        app,
        query_client=lambda client_id: Client(provider.redirect_uri) if client_id == CLIENT else None,
        save_token=lambda token, request: None,
    )
    server.register_grant(_grant(provider), [_OpenId(provider), CodeChallenge(required=True)])

    @app.get("/.well-known/openid-configuration")
    def configuration() -> Any:
        issuer = provider.issuer
        return jsonify(
            issuer=provider.called or issuer,
            authorization_endpoint=f"{issuer}/authorize",
            token_endpoint=f"{issuer}/token",
            jwks_uri=f"{issuer}/keys",
            userinfo_endpoint=f"{issuer}/userinfo",
            id_token_signing_alg_values_supported=["RS256"],
        )

    @app.get("/authorize")
    def authorize() -> Any:
        return server.create_authorization_response(
            grant_user=provider, grant=server.get_consent_grant(end_user=provider)
        )

    @app.post("/token")
    def token() -> Any:
        return server.create_token_response()

    @app.get("/userinfo")
    def userinfo() -> Any:
        return jsonify({"sub": "1", **provider.tells} if isinstance(provider.tells, dict) else provider.tells)

    @app.get("/keys")
    def keys() -> Any:
        return jsonify(keys=[provider.key.as_dict(private=False)])

    return app


def _grant(provider: Provider) -> type:
    class Grant(grants.AuthorizationCodeGrant):  # type: ignore[misc]
        def save_authorization_code(self, code: str, request: Any) -> None:
            parameters = request.payload.data
            provider.codes[code] = Code(
                CLIENT,
                parameters["redirect_uri"],
                parameters["scope"],
                parameters.get("nonce"),
                parameters["code_challenge"],
                parameters["code_challenge_method"],
            )

        def query_authorization_code(self, code: str, client: Any) -> Code | None:
            return provider.codes.get(code)

        def delete_authorization_code(self, authorization_code: Any) -> None:
            provider.codes.clear()

        def authenticate_user(self, authorization_code: Any) -> Provider:
            return provider

    return Grant


class _OpenId(OpenIDCode):  # type: ignore[misc]
    def __init__(self, provider: Provider) -> None:
        super().__init__(require_nonce=True)
        self._provider = provider

    def exists_nonce(self, nonce: str, request: Any) -> bool:
        return False

    def resolve_client_private_key(self, client: Any) -> RSAKey:
        return self._provider.key

    def get_client_algorithm(self, client: Any) -> str:
        return "RS256"

    def get_client_claims(self, client: Any) -> dict[str, Any]:
        return {"iss": self._provider.issuer, "aud": [self._provider.audience]}

    def generate_user_info(self, user: Any, scope: str) -> UserInfo:
        return UserInfo(sub="1", **self._provider.signs_in)


@contextmanager
def providing(redirect_uri: str) -> Iterator[Provider]:
    """Run a provider on loopback while open."""
    provider = Provider(redirect_uri)
    server = make_server("127.0.0.1", 0, _app(provider), threaded=True)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
