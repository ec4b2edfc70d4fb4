from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs
from uuid import UUID

import pytest

from floecat.credentials.authorities import S3Method, StorageAuthority
from floecat.credentials.aws_keys import AwsKeyMaker
from floecat.credentials.keys import AuthorityError, KeyScope
from floecat.credentials.posts import Poster
from floecat.errors import BadRequestError
from floecat.fileio.locations import normalize_location
from floecat.fileio.options import ObjectStoreOptions

KEYS = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s3cret</SecretAccessKey><SessionToken>t0ken</SessionToken>
<Expiration>2026-11-30T12:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
ERROR = "<ErrorResponse><Error><Code>{}</Code><Message>{}</Message></Error></ErrorResponse>"
SECRETS = {"secret-access-key": "long-lived"}
LOCATIONS = (normalize_location("s3://b/t"),)


class Sts(ThreadingHTTPServer):
    """Keeps what it was sent, and answers what a test sets."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = 200, KEYS
        self.sent = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        form = {name: value for name, [value] in parse_qs(body).items()}
        self.server.sent.append((form, dict(self.headers.items())))
        status, text = self.server.answer
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("location", f"{self.server.url}/elsewhere")
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture
def sts():
    with Sts() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def make(sts, *, service=None, token_file=None, principal=None, **method):
    given = {"access_key_id": "AKIA", "role_arn": "arn:aws:iam::1:role/r", "sts_endpoint": sts.url, **method}
    authority = StorageAuthority(
        UUID(int=1), UUID(int=2), "lake", normalize_location("s3://b"), S3Method(**given), True, None, 1, 0, 0
    )
    maker = AwsKeyMaker(Poster(timeout_s=30), service or ObjectStoreOptions(), token_file)
    return maker.make(authority, SECRETS, KeyScope(LOCATIONS, False, principal))


def test_keys_are_those_of_the_answer_under_the_names_of_clients(sts):
    made = make(sts)
    assert made.expires_at_ms == 1796040000000
    assert made.config == {
        "s3.access-key-id": "ASIA",
        "s3.secret-access-key": "s3cret",
        "s3.session-token": "t0ken",
        "s3.session-token-expires-at-ms": "1796040000000",
    }


def test_the_request_is_signed_with_the_authoritys_own_key(sts):
    make(sts, external_id="x", duration_s=900)
    [(form, headers)] = sts.sent
    assert "Credential=AKIA/" in headers["Authorization"]
    assert "long-lived" not in f"{form}{headers}"
    assert form.pop("Policy").startswith('{"Version"')
    assert form == {
        "Version": "2011-06-15",
        "Action": "AssumeRole",
        "RoleArn": "arn:aws:iam::1:role/r",
        "RoleSessionName": "floecat",
        "DurationSeconds": "900",
        "ExternalId": "x",
    }


def test_keys_of_the_service_are_those_of_its_storage(sts):
    service = ObjectStoreOptions(access_key_id="SERVICE", secret_access_key="s", session_token="token")
    make(sts, keys_of="service", service=service)
    [(_, headers)] = sts.sent
    assert "Credential=SERVICE/" in headers["Authorization"]
    assert headers["X-Amz-Security-Token"] == "token"


def test_a_token_of_the_service_is_sent_unsigned(sts, tmp_path):
    file = tmp_path / "token"
    file.write_text("jwt\n")
    make(sts, keys_of="web-identity", token_file=str(file))
    [(form, headers)] = sts.sent
    assert "Authorization" not in headers
    assert (form["Action"], form["WebIdentityToken"]) == ("AssumeRoleWithWebIdentity", "jwt")
    with pytest.raises(AuthorityError, match="cannot be read: No such file"):
        make(sts, keys_of="web-identity", token_file=str(tmp_path / "none"))


def test_principals_are_mapped_to_what_sts_takes(sts):
    make(sts, principal="Ada <ada@x.org>; " + "ü" * 300)
    [(form, _)] = sts.sent
    assert form["RoleSessionName"] == ("floecat-Ada__ada@x.org___" + "_" * 64)[:64]
    assert form["Tags.member.1.Key"] == "principal"
    assert form["Tags.member.1.Value"] == ("Ada _ada@x.org__ " + "ü" * 300)[:256]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((403, ERROR.format("AccessDenied", "not yours")), r"its STS refuses \(AccessDenied: not yours\)"),
        ((500, "<html>"), r"its STS refuses \(status 500\)"),
        ((302, ""), r"its STS refuses \(status 302\)"),
        ((200, "<a/>"), "the answer of its STS has no keys"),
        ((200, "{}"), "the answer of its STS has no keys"),
        ((200, KEYS.replace("2026-11-30T12:00:00Z", "soon")), "the answer of its STS has no keys"),
        ((200, "x" * 300_000), "the answer is larger than"),
        ((400, ERROR.format("X", "y" * 5000)), r"X: y{297}\)$"),
    ],
)
def test_other_answers_are_told(sts, answer, said):
    sts.answer = answer
    with pytest.raises(AuthorityError, match=f"Storage authority lake makes no keys: .*{said}"):
        make(sts)


def test_policies_that_sts_finds_too_large_are_bad_requests(sts):
    sts.answer = 400, ERROR.format("PackedPolicyTooLarge", "at 101%")
    with pytest.raises(BadRequestError, match="lake cannot make such keys: PackedPolicyTooLarge: at 101%"):
        make(sts)


def test_an_authority_without_keys_of_its_own_says_so(sts):
    with pytest.raises(AuthorityError, match="it has no access key of its own"):
        make(sts, access_key_id=None)
    with pytest.raises(AuthorityError, match="it has no role"):
        make(sts, role_arn=None)
