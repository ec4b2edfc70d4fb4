from __future__ import annotations


def test_no_tokens_are_issued_and_oauth_clients_understand_why(client):
    answer = client.post("/v1/oauth/tokens", data={"grant_type": "client_credentials"})
    assert answer.status_code == 400
    assert answer.json()["error"] == "unsupported_grant_type"
    assert set(answer.json()) == {"error", "error_description"}
