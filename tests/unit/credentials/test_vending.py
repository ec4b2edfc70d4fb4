from floecat.credentials.vending import Vended
from floecat.entries.calls import VendedCredential


def test_what_a_client_is_told_does_not_show_keys():
    config = {"s3.secret-access-key": "hidden"}
    assert "hidden" not in repr(Vended(config, (VendedCredential("s3://b/t/", config),), "tag"))
