from __future__ import annotations

import json
import logging
import sys

from floecat.settings import LogSettings
from floecat_rest.logs import JsonFormatter, TextFormatter, configure_logging


def test_a_record_is_one_json_object():
    try:
        raise ValueError("why")
    except ValueError:
        record = logging.LogRecord(
            "floecat.x", logging.ERROR, "", 0, "failed: %s\nnext", ("a",), sys.exc_info()
        )
    text = JsonFormatter().format(record)
    line = json.loads(text)
    assert "\n" not in text
    assert (line["level"], line["logger"], line["message"]) == ("error", "floecat.x", "failed: a\nnext")
    assert line["at"].endswith("+00:00")
    assert "ValueError: why" in line["exception"]


def test_a_line_of_text_has_the_time_of_its_record():
    standard, formatter = logging.Formatter(), TextFormatter()
    for created in (1_700_000_000.0, 1_700_000_000.9994, 1_700_000_001.25, 1_700_000_000.5):
        record = logging.makeLogRecord({"created": created, "msecs": created % 1 * 1000, "msg": "x"})
        assert formatter.format(record).startswith(standard.formatTime(record) + " ")


def test_the_level_is_set():
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        configure_logging(LogSettings(level="warning", json=True))
        assert root.level == logging.WARNING
        assert isinstance(root.handlers[0].formatter, JsonFormatter)
        configure_logging(LogSettings(level="debug"))
        assert root.level == logging.DEBUG
        # its requests are signed in view of the log
        assert not logging.getLogger("botocore.auth").isEnabledFor(logging.DEBUG)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
