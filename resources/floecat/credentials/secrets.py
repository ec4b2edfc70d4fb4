"""Secrets at rest: AES-256-GCM under the keys of the settings, bound to the row that has them."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from floecat.errors import SettingsError, UnavailableError
from floecat.settings import Settings

__all__ = ["Encryption", "SecretsError", "open_encryption", "require_keys"]

_FILE: Final = "the file secrets.key of the data folder"
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_ID_BYTES: Final = 4
_fields: Final = msgspec.json.Decoder(dict[str, str])
_HOW: Final = f"{_KEY_BYTES} random bytes in base64, as `openssl rand -base64 {_KEY_BYTES}` prints"


class SecretsError(UnavailableError):
    """A secret cannot be encrypted or decrypted now: a key is not there, or what is stored is damaged."""


class _Key:
    """A key. Its name says which one encrypted a text, and nothing about the key itself."""

    def __init__(self, secret: bytes) -> None:
        self.name: Final = hashlib.sha256(b"floecat secrets " + secret).digest()[:_ID_BYTES]
        self.cipher: Final = AESGCM(secret)


class Encryption:
    """Encrypts and decrypts texts. Thread-safe."""

    def __init__(self, keys: Callable[[bool], Sequence[_Key]], *, where: str) -> None:
        """Reads no key yet.

        Args:
            keys: the keys, the first one for encryption; whether to make one where there is none.
            where: where they come from, in messages.
        """
        self._keys = keys
        self._where = where

    def encrypt(self, text: str, about: str) -> str:
        """A text in a form that only the keys read.

        Args:
            text: the secret.
            about: what it is of, as the id of a row: nothing else can take it over.

        Raises:
            SecretsError: there is no key, or it cannot be read.
        """
        key = self._keys(True)[0]
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = key.cipher.encrypt(nonce, text.encode(), about.encode())
        return base64.b64encode(key.name + nonce + sealed).decode()

    def decrypt(self, encrypted: str, about: str) -> str:
        """The text of `encrypt`.

        Raises:
            SecretsError: no key decrypts it, or none can be read.
        """
        found = _bytes(encrypted)
        name, rest = found[:_ID_BYTES], found[_ID_BYTES:]
        key = next((each for each in self._keys(False) if each.name == name), None)
        if key is None:
            raise SecretsError(
                f"its secret was encrypted with a key that is not in {self._where}: put that key there, or"
                " set the secret again"
            )
        try:
            return key.cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], about.encode()).decode()
        except (InvalidTag, ValueError):
            raise SecretsError("its secret in the store is damaged: set it again") from None

    def is_current(self, encrypted: str) -> bool:
        """Whether the key that encrypts now encrypted a text."""
        return _bytes(encrypted)[:_ID_BYTES] == self._keys(True)[0].name

    def encrypt_fields(self, fields: Mapping[str, str], about: str) -> str | None:
        """Secrets by name as one text; None if there are none. See `encrypt`."""
        return self.encrypt(msgspec.json.encode(dict(fields)).decode(), about) if fields else None

    def decrypt_fields(self, encrypted: str | None, about: str) -> dict[str, str]:
        """The secrets of `encrypt_fields`. See `decrypt`."""
        return {} if encrypted is None else _fields.decode(self.decrypt(encrypted, about))


def open_encryption(settings: Settings) -> Encryption:
    """The encryption that the settings describe. A key file is read, or made, when it is first needed.

    Raises:
        SettingsError: a key is malformed.
    """
    if settings.secrets.keys:
        keys = [_Key(_read_key(text, "floecat.secrets.keys")) for text in settings.secrets.keys]
        return Encryption(lambda _makes: keys, where="floecat.secrets.keys")
    if settings.embedded_store is None:
        return Encryption(_no_keys, where="floecat.secrets.keys, which is not set")
    path = settings.data_path / "secrets.key"
    return Encryption(lambda makes: _of_file(path, makes=makes), where=_FILE)


def require_keys(settings: Settings) -> None:
    """Refuses to start a service whose store is for several machines, and has no keys.

    Raises:
        SettingsError: see above, or a key is malformed.
    """
    open_encryption(settings)
    if not settings.secrets.keys and settings.embedded_store is None:
        raise SettingsError(
            f"floecat.secrets.keys is not set, and floecat.store.url is: secrets there need a key of {_HOW}"
        )


def _no_keys(makes: bool) -> Sequence[_Key]:
    if makes:
        raise SecretsError(f"floecat.secrets.keys is not set: secrets need a key of {_HOW}")
    return ()


def _of_file(path: Path, *, makes: bool) -> Sequence[_Key]:
    try:
        if not path.exists():
            if not makes:
                return ()
            _make_file(path)
        return [_Key(_read_key(line, _FILE)) for line in path.read_text("latin-1").split() or [""]]
    except OSError as error:
        raise SecretsError(
            f"The keys of secrets cannot be read or made in {_FILE}: {error.strerror}"
        ) from None
    except SettingsError as error:
        raise SecretsError(error.message) from None


def _make_file(path: Path) -> None:
    """Makes a key file that is there as a whole or not at all; of several processes one makes it."""
    own = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.b64encode(secrets.token_bytes(_KEY_BYTES)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was first, and its key is the one
            os.link(own, path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        own.unlink()


def _read_key(text: str, where: str) -> bytes:
    key = _bytes(text.strip())
    if len(key) != _KEY_BYTES:
        raise SettingsError(f"{where}: a key is malformed, expected {_HOW}")
    return key


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""
