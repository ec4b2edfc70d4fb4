"""Generated pages are those in the repository."""

from __future__ import annotations

from pathlib import Path

from floecat.settings import describe
from floecat_rest.commands.docs import settings_page

PAGE = Path(__file__).parents[4] / "docs" / "settings.md"


def test_settings_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == settings_page(), (
        "run `floecat docs settings > docs/settings.md`"
    )


def test_settings_page_names_every_setting() -> None:
    page = settings_page()
    assert all(f"`{row.key}`<br>`{row.variable}`" in page for row in describe())
