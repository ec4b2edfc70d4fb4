"""Imports what a setting names: classes and functions of other packages."""

from __future__ import annotations

from importlib import import_module

from floecat.errors import SettingsError

__all__ = ["check_place", "imported"]


def check_place(setting: str, place: str) -> None:
    """Checks that a text is of the form `package.module:Name`.

    Raises:
        SettingsError: the form is another.
    """
    module, colon, name = place.partition(":")
    if not (colon and name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise SettingsError(f"{setting}: {place!r} is not of the form package.module:Name")


def imported(setting: str, place: str) -> object:
    """The object at `package.module:Name`.

    Args:
        setting: the key of the setting that names it, for messages.
        place: as the setting names it.

    Raises:
        SettingsError: the form is another, or it cannot be imported.
    """
    check_place(setting, place)
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"{setting}: {place} cannot be imported: {error}") from error
    except Exception as error:  # a module of another package may raise anything when it is imported
        raise SettingsError(f"{setting}: {place} cannot be imported: {type(error).__name__}") from error
