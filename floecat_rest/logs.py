"""Logs on standard error, as text or as one JSON object a line."""

from __future__ import annotations

import logging
import logging.config
from datetime import UTC, datetime

import msgspec

from floecat.settings import LogSettings

__all__ = ["JsonFormatter", "TextFormatter", "configure_logging"]

_TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class TextFormatter(logging.Formatter):
    """Lines of text. The time is rendered once a second."""

    def __init__(self) -> None:
        super().__init__(_TEXT)
        self._rendered = (0, "")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802, ARG002
        """The time of a record, as the standard formatter writes it."""
        second, text = self._rendered
        if second != int(record.created):
            second, text = int(record.created), super().formatTime(record)[:-4]
            self._rendered = second, text
        return f"{text},{int(record.msecs):03d}"


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object: `at` (UTC), `level`, `logger`, `message`, perhaps `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        """Renders a record."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def configure_logging(settings: LogSettings) -> None:
    """Sets up the logs of this process."""
    # No format names the place, thread or process of a call: not looking them up halves the cost of a line
    # (Logging HOWTO, "Optimization").
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "text": {"()": TextFormatter},
                "json": {"()": JsonFormatter},
            },
            "handlers": {
                "stderr": {
                    "class": "logging.StreamHandler",
                    "formatter": "json" if settings.json else "text",
                }
            },
            # at DEBUG it logs signatures, and the session tokens that are signed
            "loggers": {"botocore": {"level": "INFO"}},
            "root": {"level": settings.level.upper(), "handlers": ["stderr"]},
        }
    )
