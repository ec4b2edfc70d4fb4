"""A small client in another language that a test drives: commands and answers in JSON, a line each."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

__all__ = ["ClientError", "LineClient"]

_ANSWER_S = 180.0


class ClientError(Exception):
    """The client's own error, in its words."""


class LineClient:
    """A running client; its first line says that it is connected."""

    def __init__(self, program: Path, properties: Mapping[str, str]) -> None:
        """Starts the program with the catalog's properties.

        Raises:
            ClientError: it could not connect.
        """
        self._process = subprocess.Popen(
            [str(program), json.dumps(dict(properties))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"},
        )
        self._answer("connect")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def do(self, what: str, **arguments: Any) -> Any:
        """Sends a command and returns its answer.

        Raises:
            ClientError: the client answered with an error, ended, or took too long.
        """
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"do": what} | arguments) + "\n")
        self._process.stdin.flush()
        return self._answer(what)

    def close(self) -> None:
        """Ends the client."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(_ANSWER_S)
        if self._process.stdout:
            self._process.stdout.close()

    def _answer(self, what: str) -> Any:
        assert self._process.stdout
        watch = threading.Timer(_ANSWER_S, self._process.kill)
        watch.start()
        line = self._process.stdout.readline()
        watch.cancel()
        if not line:
            raise ClientError(f"The client ended during: {what}")
        answer = json.loads(line)
        if "error" in answer:
            raise ClientError(answer["error"])
        return answer["answer"]
