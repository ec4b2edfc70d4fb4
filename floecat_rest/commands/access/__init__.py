"""Commands about access."""
