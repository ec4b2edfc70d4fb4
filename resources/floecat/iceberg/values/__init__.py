"""JSON values and arrays as bytes, and limits on them."""
