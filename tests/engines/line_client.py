"""A small client in another language that a test drives: commands and answers in JSON, a line each."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from tests.engines.driven_process import DrivenProcess

__all__ = ["ClientError", "LineClient"]

_ANSWER_S = 180.0


class ClientError(Exception):
    """The client's own error, in its words."""


class LineClient(DrivenProcess):
    """A running client; its first line says that it is connected."""

    def __init__(self, program: Path, properties: Mapping[str, str]) -> None:
        """Starts the program with the catalog's properties.

        Raises:
            ClientError: it could not connect.
        """
        own = {"AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
        super().__init__([str(program), json.dumps(dict(properties))], env=os.environ | own)
        assert self._process.stdout is not None
        self._answer("connect", self._process.stdout)

    def do(self, what: str, **arguments: Any) -> Any:
        """Sends a command and returns its answer.

        Raises:
            ClientError: the client answered with an error, ended, or took too long.
        """
        return self._answer(what, self._send(json.dumps({"do": what} | arguments)))

    def _answer(self, what: str, said: IO[str]) -> Any:
        watch = threading.Timer(_ANSWER_S, self._process.kill)
        watch.start()
        line = said.readline()
        watch.cancel()
        if not line:
            raise ClientError(f"The client ended during: {what}")
        answer = json.loads(line)
        if "error" in answer:
            raise ClientError(answer["error"])
        return answer["answer"]
