"""What happened in the catalogs, for those who follow them."""
