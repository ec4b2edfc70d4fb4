from __future__ import annotations

import importlib
import pkgutil

import pytest

import floecat.store

MODULES = [
    name
    for _, name, is_package in pkgutil.walk_packages(floecat.store.__path__, "floecat.store.")
    if not is_package and ".migrations." not in name
]


@pytest.mark.parametrize("name", MODULES)
def test_exported_names_exist(name: str) -> None:
    module = importlib.import_module(name)
    for exported in module.__all__:
        assert hasattr(module, exported)
