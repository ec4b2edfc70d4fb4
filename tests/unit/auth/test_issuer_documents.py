"""Documents of issuers that are large, slow, redirecting, broken or not who they say."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from floecat.auth.issuer_documents import DocumentError, IssuerDocuments, check_address
from floecat.errors import SettingsError

OK = b"HTTP/1.1 200 OK\r\n"
MOST_BYTES = 1000


@contextmanager
def answering(
    answer: Callable[[socket.socket], object],
    tls: ssl.SSLContext | None = None,
    asked: list[bytes] | None = None,
) -> Iterator[str]:
    """The address of a server that answers each connection with what a function sends.

    Args:
        asked: gets what each connection sends.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with suppress(OSError), connection:
                        spoken = tls.wrap_socket(connection, server_side=True) if tls else connection
                        with spoken:
                            sent = spoken.recv(65_536)
                            if asked is not None:
                                asked.append(sent)
                            answer(spoken)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http{'s' if tls else ''}://localhost:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def sends(*parts: bytes) -> Callable[[socket.socket], object]:
    return lambda connection: connection.sendall(b"".join(parts))


def drips(*parts: bytes) -> Callable[[socket.socket], object]:
    """Sends a start, and then a byte from time to time."""

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"".join(parts))
        while True:
            connection.sendall(b"a")
            threading.Event().wait(0.02)

    return drip


@pytest.fixture
def documents() -> IssuerDocuments:
    return IssuerDocuments(timeout_s=30, most_bytes=MOST_BYTES)


@pytest.mark.parametrize(
    "answer",
    [
        sends(OK, b"Content-Length: 1000\r\n\r\n", b"a" * 1000),
        sends(OK, b"\r\n", b"a" * 1000),
        sends(OK, b"Transfer-Encoding: chunked\r\n\r\n3e8\r\n", b"a" * 1000, b"\r\n0\r\n\r\n"),
    ],
)
def test_a_document_of_the_bound_is_read(documents, answer):
    with answering(answer) as url:
        assert documents.read(url) == b"a" * 1000


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            sends(OK, b"\r\n", b"a" * 1001),
            r"larger than 1000 bytes \(floecat\.limits\.issuer-document-bytes\)",
        ),
        (sends(OK, b"Content-Length: 10\r\n\r\n", b"a"), "breaks off"),
        (sends(OK, b"Transfer-Encoding: chunked\r\n\r\n3e8\r\naaa"), "breaks off"),
        (sends(OK, b"Transfer-Encoding: chunked\r\n\r\nzz\r\naaa"), "breaks off"),
        (sends(b"SSH-2.0-OpenSSH\r\n"), "not HTTP"),
        (sends(OK, b"A: ", b"a" * 70_000), "not HTTP"),
        (sends(OK, b"A: a\r\n" * 1000, b"\r\n"), "not HTTP"),
        (sends(b""), "connection ended|reset"),
        (sends(b"HTTP/1.1 403 No\r\n\r\n"), "status 403"),
        (
            sends(b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"),
            "or not to an http",
        ),
        (sends(b"HTTP/1.1 302 Found\r\nLocation: //\r\n\r\n"), "or not to an http"),
        (sends(b"HTTP/1.1 302 Found\r\n\r\n"), "or not to an http"),
        (sends(b"HTTP/1.1 307 Again\r\nLocation: /\r\n\r\n"), "redirected more than 3 times"),
    ],
)
def test_what_is_no_document_is_named(documents, answer, message):
    with answering(answer) as url, pytest.raises(DocumentError, match=message):
        documents.read(url)


def test_a_redirect_is_followed(documents):
    with (
        answering(sends(OK, b"\r\nhere")) as there,
        answering(sends(b"HTTP/1.1 301 Moved\r\nLocation: ", there.encode(), b"\r\n\r\n")) as url,
    ):
        assert documents.read(url) == b"here"


@pytest.mark.parametrize(
    "answer",
    [
        lambda connection: connection.recv(1),
        drips(b"HT"),
        drips(OK, b"A: "),
        drips(OK, b"\r\n"),
        drips(OK, b"Transfer-Encoding: chunked\r\n\r\n0"),
    ],
    ids=["silent", "status", "header", "body", "chunk"],
)
def test_a_slow_document_is_given_up_in_time(answer):
    """The library's own timeout never comes: each byte starts it again."""
    documents = IssuerDocuments(timeout_s=0.3, most_bytes=1 << 30)
    with answering(answer) as url, pytest.raises(DocumentError, match=r"did not come within 0\.3 s"):
        documents.read(url)


def test_a_handshake_that_does_not_end_is_given_up_in_time():
    documents = IssuerDocuments(timeout_s=0.3, most_bytes=MOST_BYTES)
    with answering(drips(b"\x16\x03\x03\x40\x00")) as url, pytest.raises(DocumentError, match="did not come"):
        documents.read(url.replace("http:", "https:"))


def test_reasons_of_the_network(documents):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(DocumentError, match="connection is refused"):
        documents.read(f"http://127.0.0.1:{port}/")
    with pytest.raises(DocumentError, match="host is not found"):
        documents.read("http://issuer.invalid/")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificate and key of localhost, signed by itself."""
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*made, "-keyout", str(path), "-out", f"{path}.crt"], check=True, capture_output=True)
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return path


def test_certificates_of_an_own_authority(certificate, documents):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    trusting = IssuerDocuments(timeout_s=30, most_bytes=MOST_BYTES, ca_file=f"{certificate}.crt")
    with answering(sends(OK, b"\r\nhere"), tls) as url:
        assert trusting.read(url) == b"here"
        with pytest.raises(
            DocumentError, match=r"certificate is not trusted: self.signed certificate.*ca-file"
        ):
            documents.read(url)
        with pytest.raises(DocumentError, match="certificate is not trusted"):
            trusting.read(url.replace("localhost", "127.0.0.1"))
    downgrade = sends(b"HTTP/1.1 302 Found\r\nLocation: http://localhost/\r\n\r\n")
    with answering(downgrade, tls) as url, pytest.raises(DocumentError, match="has no TLS"):
        trusting.read(url)


def test_a_bearer_token_is_sent_by_tls_and_to_nobody_else(certificate: Path, tmp_path: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    file = tmp_path / "token"
    file.write_text("hush\n")
    documents = IssuerDocuments(
        timeout_s=30, most_bytes=MOST_BYTES, ca_file=f"{certificate}.crt", bearer_token_file=str(file)
    )
    asked: list[bytes] = []

    def echo(connection: socket.socket) -> None:
        connection.sendall(OK + b"\r\nhere")

    with answering(echo, tls, asked) as other, answering(echo, tls, asked) as url:
        assert documents.read(url) == b"here"
        assert b"\r\nAuthorization: Bearer hush\r\n" in asked.pop()
        file.write_text("renewed")
        documents.read(url)
        assert b"Bearer renewed\r\n" in asked.pop()
        with answering(
            sends(b"HTTP/1.1 302 Found\r\nLocation: " + other.encode() + b"\r\n\r\n"), tls
        ) as moved:
            assert documents.read(moved) == b"here"
        assert b"Bearer" not in asked.pop()
    with pytest.raises(DocumentError, match=r"no TLS, and the token of floecat\.oidc\.bearer-token-file"):
        documents.read("http://127.0.0.1:1/")
    file.unlink()
    with pytest.raises(DocumentError, match=r"bearer-token-file: .*token cannot be read: No such file"):
        documents.read("https://127.0.0.1:1/")


def test_a_file_without_certificates_stops_the_start(tmp_path):
    empty = tmp_path / "empty.pem"
    empty.write_text("hush")
    for path, why in (
        (empty, "no certificate"),
        (tmp_path / "none.pem", "No such file"),
        (tmp_path, "directory"),
    ):
        with pytest.raises(SettingsError, match=f"floecat.oidc.ca-file: .*{why}") as refused:
            IssuerDocuments(timeout_s=1, most_bytes=1, ca_file=str(path))
        assert "hush" not in refused.value.message


def test_tls_does_not_end_at_what_an_issuer_names():
    check_address("http://b/", of="http://a/")
    check_address("https://b/", of="http://a/")
    with pytest.raises(DocumentError, match="'https://a/' names 'http://b/', which has no TLS"):
        check_address("http://b/", of="https://a/")
