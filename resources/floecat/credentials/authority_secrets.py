"""The secrets of authorities, which only their makers of keys see."""

from __future__ import annotations

from uuid import UUID

from floecat.credentials.authorities import Secrets, StorageAuthority
from floecat.credentials.keys import AuthorityError
from floecat.credentials.secrets import Encryption, SecretsError

__all__ = ["AuthoritySecrets"]


class AuthoritySecrets:
    """Encrypts and decrypts the secrets of authorities, bound to the authority. Thread-safe."""

    def __init__(self, encryption: Encryption) -> None:
        self._encryption = encryption

    def encrypt(self, authority_id: UUID, secrets: Secrets) -> str | None:
        """The text that the store has; None if there are none.

        Raises:
            SecretsError: there is no key.
        """
        return self._encryption.encrypt_fields(secrets, str(authority_id))

    def of(self, authority: StorageAuthority) -> Secrets:
        """The secrets of an authority, in the clear.

        Raises:
            AuthorityError: no key decrypts them.
        """
        try:
            return self._encryption.decrypt_fields(authority.encrypted_secrets, str(authority.id))
        except SecretsError as error:
            raise AuthorityError(authority, error.message) from None

    def encrypted_anew(self, authority: StorageAuthority) -> str | None:
        """Its secrets under the key that encrypts now; None if they are so already.

        Raises:
            AuthorityError: no key decrypts them.
        """
        old = authority.encrypted_secrets
        if old is None or self._encryption.is_current(old):
            return None
        return self.encrypt(authority.id, self.of(authority))
