"""Z85, the base 85 in which a Delta log writes bytes (ZeroMQ RFC 32, "Z85")."""

from __future__ import annotations

from base64 import b85decode

__all__ = ["decode_z85"]

_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
# The standard library's base 85 differs by its alphabet only (RFC 1924), in which a blank is no digit.
_RFC1924 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

_TO_RFC1924 = bytes(_RFC1924[_Z85.index(code)] if code in _Z85 else ord(" ") for code in range(256))


def decode_z85(text: str) -> bytes:
    """Reads Z85: four bytes of every five characters.

    The library that Delta's Rust kernel uses goes beyond the standard: five characters that cannot be Z85,
    for they start with `#`, stand for fewer bytes at the end, one less for each `#`. That is read too.

    Raises:
        ValueError: the length is no multiple of five, a character is none of the alphabet's, or five
            characters stand for more than their bytes hold. The message does not quote the text.
    """
    if len(text) % 5:
        raise ValueError("the length of the Z85 text is no multiple of 5")
    tail = text[-5:]
    digits = tail.lstrip("#")
    missing = len(tail) - len(digits)
    try:
        filled = text[:-5] + digits.rjust(len(tail), "0")
        data = b85decode(filled.encode("ascii").translate(_TO_RFC1924))
    except ValueError:
        # UnicodeEncodeError is one too; both quote what they do not like
        raise ValueError("the text is not Z85") from None
    if missing > 3 or any(data[-4 : missing - 4]):
        raise ValueError("the text is not Z85")
    return data[:-4] + data[missing - 4 :]
