"""Secrets are read with their keys alone, and only of the row that has them."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest

from floecat.credentials.secrets import SecretsError, open_encryption, require_keys
from floecat.errors import SettingsError
from floecat.settings import SecretSettings, Settings, StoreSettings

OLD, NEW = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
SECRET = "a secret with ü"


def shared(*keys: str) -> Settings:
    """Settings of a store for several machines."""
    return Settings(store=StoreSettings(url="sqlite:///elsewhere.db"), secrets=SecretSettings(keys=keys))


def test_a_secret_is_read_with_its_key_and_of_its_row_alone() -> None:
    encryption = open_encryption(shared(OLD))
    sealed = encryption.encrypt(SECRET, "row")
    assert SECRET not in base64.b64decode(sealed).decode("latin-1")
    assert sealed != encryption.encrypt(SECRET, "row")
    assert encryption.decrypt(sealed, "row") == SECRET
    with pytest.raises(SecretsError, match="damaged"):
        encryption.decrypt(sealed, "another row")
    with pytest.raises(SecretsError, match=r"with a key that is not in floecat\.secrets\.keys"):
        open_encryption(shared(NEW)).decrypt(sealed, "row")
    with pytest.raises(SecretsError, match="which is not set"):
        open_encryption(shared()).decrypt(sealed, "row")


@pytest.mark.parametrize("damage", ["", "?", "AAAA", "ü", "A" * 60])
def test_a_damaged_text_is_an_error_that_says_so(damage: str) -> None:
    with pytest.raises(SecretsError):
        open_encryption(shared(OLD)).decrypt(damage, "row")


def test_each_byte_of_an_encrypted_text_counts() -> None:
    encryption = open_encryption(shared(OLD))
    sealed = base64.b64decode(encryption.encrypt(SECRET, "row"))
    for place in range(len(sealed)):
        changed = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
        with pytest.raises(SecretsError):
            encryption.decrypt(base64.b64encode(changed).decode(), "row")


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    sealed = open_encryption(shared(OLD)).encrypt(SECRET, "row")
    rotated = open_encryption(shared(NEW, OLD))
    assert rotated.decrypt(sealed, "row") == SECRET
    assert not rotated.is_current(sealed)
    again = rotated.encrypt(SECRET, "row")
    assert rotated.is_current(again)
    assert open_encryption(shared(NEW)).decrypt(again, "row") == SECRET


@pytest.mark.parametrize("key", ["short", OLD[:-4], OLD + "AAAA", "schlüssel"])
def test_a_malformed_key_stops_the_start_and_is_not_shown(key: str) -> None:
    with pytest.raises(SettingsError, match=r"floecat\.secrets\.keys: a key is malformed") as raised:
        require_keys(shared(OLD, key))
    assert key not in raised.value.message


def test_a_store_for_several_machines_needs_keys() -> None:
    require_keys(shared(OLD))
    require_keys(Settings())
    with pytest.raises(SettingsError, match=r"floecat\.secrets\.keys is not set.*openssl rand -base64 32"):
        require_keys(shared())
    with pytest.raises(SecretsError, match="openssl"):
        open_encryption(shared()).encrypt(SECRET, "row")


def test_the_key_file_is_made_with_the_first_secret(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path))
    require_keys(settings)
    with pytest.raises(SecretsError, match="not in"):
        open_encryption(settings).decrypt("AAAA", "row")
    assert list(tmp_path.iterdir()) == []
    sealed = open_encryption(settings).encrypt(SECRET, "row")
    (file,) = tmp_path.iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("secrets.key", 0o600)
    assert open_encryption(settings).decrypt(sealed, "row") == SECRET
    file.unlink()
    with pytest.raises(SecretsError, match=r"key that is not in the file secrets\.key of the data folder"):
        open_encryption(settings).decrypt(sealed, "row")
    for damage in ("", "ü", "AAAA"):
        file.write_text(damage)
        with pytest.raises(SecretsError, match=r"secrets\.key of the data folder: a key is malformed"):
            open_encryption(settings).encrypt(SECRET, "row")


def test_a_key_file_that_cannot_be_made_is_an_error_that_says_so(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path / "missing"))
    with pytest.raises(SecretsError, match=r"cannot be read or made in the file secrets\.key"):
        open_encryption(settings).encrypt(SECRET, "row")


def test_of_several_processes_one_makes_the_key_file(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from floecat.credentials.secrets import open_encryption\n"
        "from floecat.settings import Settings\n"
        "sys.stdin.read()\n"
        "print(open_encryption(Settings(data_dir=sys.argv[1])).encrypt('mine', 'row'))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(6)
    ]
    for each in processes:
        assert each.stdin is not None
        each.stdin.close()
        each.stdin = None
    sealed = [each.communicate()[0].strip() for each in processes]
    encryption = open_encryption(Settings(data_dir=str(tmp_path)))
    assert [encryption.decrypt(each, "row") for each in sealed] == ["mine"] * 6
    assert [each.name for each in tmp_path.iterdir()] == ["secrets.key"]
