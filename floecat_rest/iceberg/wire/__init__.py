"""Bodies of requests and answers, as the REST specification spells them."""
