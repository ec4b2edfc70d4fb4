"""A folder is used by one process at a time."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from floecat.errors import SettingsError
from floecat_rest.commands.service.folder_lock import lock_folder


def test_a_folder_in_use_is_refused_by_name_until_it_is_given_back(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    expected = re.escape(
        f"{folder} is in use by another floecat process ({os.getpid()}): stop it, "
        "or choose another folder with --data-dir"
    )
    with lock_folder(folder, "up", "--data-dir"):
        with pytest.raises(SettingsError, match=expected), lock_folder(folder, "up", "--data-dir"):
            pass
        with lock_folder(folder, "dagster", "DAGSTER_HOME"):
            pass
    with lock_folder(folder, "up", "--data-dir"):
        assert (folder / "up.lock").read_text() == str(os.getpid())
