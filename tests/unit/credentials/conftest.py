from __future__ import annotations

from collections.abc import Iterator

import pytest

from floecat.credentials.posts import Poster
from tests.services.cloud_services import CloudService, cloud_service


@pytest.fixture
def cloud() -> Iterator[CloudService]:
    with cloud_service() as made:
        yield made


@pytest.fixture
def poster() -> Poster:
    return Poster(timeout_s=60)
