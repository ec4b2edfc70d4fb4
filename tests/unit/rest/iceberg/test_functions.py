from __future__ import annotations


def test_there_are_no_functions(client, namespace):
    path = f"/v1/namespaces/{namespace}/functions"
    assert client.get(path).json() == {"identifiers": [], "next-page-token": None}
    answer = client.get(f"{path}/f")
    assert answer.status_code == 404
    assert answer.json()["error"]["type"] == "NoSuchFunctionException"


def test_a_missing_namespace_is_told(client):
    for path in ("/v1/namespaces/none/functions", "/v1/namespaces/none/functions/f"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"]["type"] == "NoSuchNamespaceException"
