"""Requests to catalogs that are elsewhere, slow, endless, or that lead elsewhere."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from floecat.connectors.upstream_http import AllowedHosts, UpstreamHttp
from floecat.errors import (
    BadRequestError,
    FloecatError,
    LocationNotAllowedError,
    SettingsError,
    UnavailableError,
    UnprocessableError,
)
from tests.services.certificates import PrivateAuthority

OK = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def answering(
    answer: Callable[[socket.socket], object], asked: list[bytes] | None = None, *, first: int = 65_536
) -> Iterator[str]:
    """The port of a server that answers each connection with what a function sends.

    Args:
        first: bytes that are read before it answers.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with suppress(OSError), connection:
                        sent = connection.recv(first) if first else b""
                        if asked is not None:
                            asked.append(sent)
                        answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield str(server.getsockname()[1])
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def sends(*parts: bytes) -> Callable[[socket.socket], object]:
    return lambda connection: connection.sendall(b"".join(parts))


def drips(*parts: bytes) -> Callable[[socket.socket], object]:
    def drip(connection: socket.socket) -> None:
        connection.sendall(b"".join(parts))
        while True:
            connection.sendall(b"a")
            threading.Event().wait(0.02)

    return drip


def floods(connection: socket.socket) -> None:
    connection.sendall(OK + b"\r\n")
    while True:
        connection.sendall(b"a" * 65_536)


def http(*allowed: str, timeout_s: float = 30) -> UpstreamHttp:
    return UpstreamHttp(allowed or ("127.0.0.1",), timeout_s=timeout_s)


def test_an_answer_and_its_headers():
    asked: list[bytes] = []
    with answering(sends(OK, b"ETag: W/1\r\n\r\nhere"), asked) as port:
        found = http().send("GET", f"http://127.0.0.1:{port}/v1/config?a=b", {"X-A": "1"})
    assert (found.status, found.headers["etag"], found.body) == (200, "W/1", b"here")
    assert asked[0].startswith(b"GET /v1/config?a=b HTTP/1.1\r\n")
    assert b"X-A: 1\r\n" in asked[0]


@pytest.mark.parametrize(("scheme", "port"), [("http", 80), ("https", 443)])
def test_addresses_of_ipv6_without_a_port(scheme, port):
    made = http("::1")._new(AllowedHosts(["::1"]).check_url(f"{scheme}://[::1]/"))
    assert (made.host, made.port) == ("::1", port)


def test_a_connection_is_kept_and_made_anew_when_it_ended():
    connections = []

    def twice(connection: socket.socket) -> None:
        connections.append(connection)
        connection.sendall(OK + b"Content-Length: 1\r\n\r\na")
        connection.recv(65_536)
        connection.sendall(OK + b"Content-Length: 1\r\n\r\nb")

    with answering(twice) as port:
        sender = http()
        found = [sender.send("GET", f"http://127.0.0.1:{port}/").body for _ in range(3)]
        sender.close()
    assert found == [b"a", b"b", b"a"]
    assert len(connections) == 2


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (floods, UnprocessableError, "larger than 1000 bytes"),
        (sends(OK, b"Content-Length: 10\r\n\r\na"), UnavailableError, "breaks off"),
        (sends(b"SSH-2.0-OpenSSH\r\n"), UnavailableError, "not HTTP"),
        (sends(OK, b"A: ", b"a" * 70_000), UnavailableError, "not HTTP"),
        (sends(OK, b"Content-Encoding: gzip\r\n\r\na"), UnprocessableError, "compressed"),
        (sends(b"HTTP/1.1 307 Again\r\nLocation: /\r\n\r\n"), UnprocessableError, "more than 3 times"),
        (sends(b"HTTP/1.1 302 Found\r\n\r\n"), UnprocessableError, "redirects a request"),
        (
            sends(b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"),
            BadRequestError,
            "http or https",
        ),
        (
            sends(b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/keys\r\n\r\n"),
            LocationNotAllowedError,
            r"'169.254.169.254' \(floecat.connectors.allowed-hosts",
        ),
        (
            sends(b"HTTP/1.1 302 Found\r\nLocation: http://localhost:1/\r\n\r\n"),
            LocationNotAllowedError,
            "'localhost'",
        ),
    ],
)
def test_bad_answers_are_named(answer, error, message):
    with answering(answer) as port, pytest.raises(error, match=message) as raised:
        http().send("GET", f"http://127.0.0.1:{port}/", {"Authorization": "hush"}, most_bytes=1000)
    assert "hush" not in raised.value.message


@pytest.mark.parametrize(
    "answer",
    [lambda connection: connection.recv(1), drips(b"HT"), drips(OK, b"A: "), drips(OK, b"\r\n")],
    ids=["silent", "status", "header", "body"],
)
def test_slow_answers_are_given_up_in_time(answer):
    with answering(answer) as port, pytest.raises(UnavailableError, match=r"did not answer within 0\.3 s"):
        http(timeout_s=0.3).send("GET", f"http://127.0.0.1:{port}/")


def test_a_redirect_to_another_host_gets_no_login():
    there_asked: list[bytes] = []
    here_asked: list[bytes] = []

    def signer(method: str, url: str, body: bytes | None) -> dict[str, str]:
        return {"Authorization": f"signed {method} {url}"}

    with answering(sends(OK, b"\r\nthere"), there_asked) as there:
        to = f"HTTP/1.1 302 Found\r\nLocation: http://localhost:{there}/x\r\n\r\n".encode()
        with answering(sends(to), here_asked) as here:
            url = f"http://127.0.0.1:{here}/"
            found = http("127.0.0.1", "localhost").send("GET", url, {"X-Key": "hush"}, signer=signer)
    assert found.body == b"there"
    assert b"Authorization: signed GET http://127.0.0.1" in here_asked[0]
    assert b"hush" in here_asked[0]
    assert b"hush" not in there_asked[0]
    assert b"authorization" not in there_asked[0].lower()


def test_a_post_is_not_redirected():
    def redirects(connection: socket.socket) -> None:
        connection.sendall(
            b"HTTP/1.1 307 Again\r\nLocation: /x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        )
        while connection.recv(65_536):
            pass

    with answering(redirects) as port, pytest.raises(UnprocessableError, match="redirects a request"):
        http().send("POST", f"http://127.0.0.1:{port}/", {}, b"grant")


def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch):
    """A name server that answers another address each time it is asked."""
    answers = [("127.0.0.1", 1), ("169.254.169.254", 2)]
    lookups: list[str] = []
    real = socket.getaddrinfo

    def changing(host: str, port: int, *rest: object, **more: object) -> object:
        lookups.append(host)
        address = answers[min(len(lookups), len(answers)) - 1][0]
        return real(address, port, type=socket.SOCK_STREAM)

    with answering(sends(OK, b"\r\nhere")) as port:
        monkeypatch.setattr(socket, "getaddrinfo", changing)
        sender = http("catalog.example")
        assert sender.send("GET", f"http://catalog.example:{port}/").body == b"here"
        assert lookups == ["catalog.example"]
        with pytest.raises(LocationNotAllowedError, match=r"its address 169\.254\.169\.254"):
            sender.send("GET", f"http://catalog.example:{port}/")


@pytest.mark.parametrize(
    ("address", "wildcard", "listed"),
    [
        ("10.0.0.1", False, True),
        ("127.0.0.1", False, True),
        ("::ffff:127.0.0.1", False, True),
        ("fd00::1", False, True),
        ("169.254.169.254", False, False),
        ("fe80::1", False, False),
        ("0.0.0.0", False, False),
        ("8.8.8.8", True, True),
    ],
)
def test_addresses_of_inner_networks_need_the_host_itself_on_the_list(monkeypatch, address, wildcard, listed):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found = [(family, socket.SOCK_STREAM, 6, "", (address, 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_rest, **_more: found)

    def may(*allowed: str) -> bool:
        try:
            return bool(AllowedHosts(allowed).addresses("a.example.com", 443))
        except LocationNotAllowedError:
            return False

    assert may("*.example.com") == wildcard
    assert may("a.example.com") == listed


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.example/",
        "http://",
        "http://me:hush@a.example/",
        "http://a.example/#x",
        "http://a.example/ x",
        "http://a.example/\r\nX: y",
        "http://a.example:99999/",
        "http://[::1/",
        "http://ä.example/",
        "a.example",
        "http://a.example/" + "a" * 9000,
    ],
)
def test_what_is_no_address(url):
    with pytest.raises(BadRequestError) as raised:
        AllowedHosts(["a.example"]).check_url(url)
    assert "hush" not in raised.value.message


def test_which_hosts_are_allowed():
    hosts = AllowedHosts(["a.example", "*.lake.example", "[::1]"])
    for host in ("A.example", "x.lake.example", "x.y.lake.example", "[::1]"):
        hosts.check_url(f"https://{host}/v1")
    for host in ("b.example", "lake.example", "xlake.example", "a.example.evil", "a.example.", "127.0.0.1"):
        with pytest.raises(LocationNotAllowedError):
            hosts.check_url(f"https://{host}/v1")
    with pytest.raises(FloecatError, match=r"connectors\.allowed-hosts"):
        AllowedHosts([]).check_url("http://127.0.0.1/")


def test_reasons_of_the_network():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(
        UnavailableError, match=f"127.0.0.1:{port} does not answer: the connection is refused"
    ):
        http().send("GET", f"http://127.0.0.1:{port}/")
    with pytest.raises(UnavailableError, match="host is not found"):
        http("catalog.invalid").send("GET", "http://catalog.invalid/")


class TestTls:
    """A server with a certificate of a private authority, for the name `catalog.example`."""

    @pytest.fixture
    def authority(self, tmp_path: Path) -> PrivateAuthority:
        return PrivateAuthority(tmp_path)

    @pytest.fixture
    def lookups(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Names that were looked up; all are this machine the first time, and elsewhere from then on."""
        asked: list[str] = []
        real = socket.getaddrinfo

        def found(host: str, port: int, *_rest: object, **_more: object) -> object:
            asked.append(host)
            address = "127.0.0.1" if asked.count(host) == 1 else "169.254.169.254"
            return real(address, port, type=socket.SOCK_STREAM)

        monkeypatch.setattr(socket, "getaddrinfo", found)
        return asked

    @contextmanager
    def serving(
        self, tls: ssl.SSLContext, named: list[str | None], asked: list[bytes] | None = None
    ) -> Iterator[str]:
        tls.sni_callback = lambda _socket, name, _context: named.append(name)

        def answer(connection: socket.socket) -> None:
            with tls.wrap_socket(connection, server_side=True) as wrapped:
                sent = wrapped.recv(65_536)
                if asked is not None:
                    asked.append(sent)
                wrapped.sendall(OK + b"Content-Length: 4\r\n\r\nhere")

        with answering(answer, first=0) as port:
            yield port

    def test_an_authority_that_is_not_known_is_refused_in_words(self, authority, lookups):
        asked: list[bytes] = []
        with self.serving(authority.server("catalog.example"), [], asked) as port:
            sender = http("catalog.example")
            with pytest.raises(
                UnavailableError,
                match=r"its certificate is not trusted: unable to get local issuer certificate"
                r" \(see floecat.connectors.ca-file\)",
            ) as raised:
                sender.send("GET", f"https://catalog.example:{port}/", {"Authorization": "hush"})
        assert "hush" not in raised.value.message
        assert asked == []

    def test_the_name_is_checked_and_the_address_is_the_one_that_was(self, authority, lookups):
        named: list[str | None] = []
        with self.serving(authority.server("catalog.example"), named) as port:
            sender = UpstreamHttp(["catalog.example"], ca_file=str(authority.file))
            assert sender.send("GET", f"https://catalog.example:{port}/").body == b"here"
            assert (named, lookups) == (["catalog.example"], ["catalog.example"])
            with pytest.raises(LocationNotAllowedError, match=r"169\.254\.169\.254"):
                UpstreamHttp(["catalog.example"], ca_file=str(authority.file)).send(
                    "GET", f"https://catalog.example:{port}/"
                )

    def test_a_certificate_for_another_name_is_refused(self, authority, lookups):
        asked: list[bytes] = []
        with self.serving(authority.server("other.example", "127.0.0.1"), [], asked) as port:
            sender = UpstreamHttp(["catalog.example"], ca_file=str(authority.file))
            with pytest.raises(UnavailableError, match="Hostname mismatch"):
                sender.send("GET", f"https://catalog.example:{port}/", {"Authorization": "hush"})
        assert asked == []

    def test_a_handshake_that_never_ends_is_given_up(self, authority, lookups):
        def hears(connection: socket.socket) -> None:
            while connection.recv(65_536):
                pass

        with answering(hears, first=0) as port:
            sender = UpstreamHttp(["catalog.example"], ca_file=str(authority.file), timeout_s=0.3)
            with pytest.raises(UnavailableError, match=r"did not answer within 0\.3 s"):
                sender.send("GET", f"https://catalog.example:{port}/")

    def test_a_file_without_certificates_is_refused(self, tmp_path):
        (tmp_path / "empty").write_text("")
        with pytest.raises(SettingsError, match=r"connectors\.ca-file: .*empty cannot be read"):
            UpstreamHttp([], ca_file=str(tmp_path / "empty"))
