from __future__ import annotations

from tests.services.postgres import own_postgres_server, postgres_server, postgres_url
from tests.services.s3 import s3_bucket, s3_server

__all__ = ["own_postgres_server", "postgres_server", "postgres_url", "s3_bucket", "s3_server"]
