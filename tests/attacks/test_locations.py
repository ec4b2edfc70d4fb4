"""Locations that are percent-encoded over and over."""

from __future__ import annotations

from tests.attacks.attacked_service import AttackedService

DEEP = "file:///%" + "25" * 30_000 + "41"


def test_deep_percent_encoding_in_a_parameter(attacked_service: AttackedService) -> None:
    def send() -> None:
        answer = attacked_service.send("GET", f"/v1/config?warehouse={DEEP}")
        assert answer.status is None or answer.is_refusal, answer

    attacked_service.attack(send, at_once=40)
