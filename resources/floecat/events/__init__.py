"""Events in the catalogs, for those who follow them."""
