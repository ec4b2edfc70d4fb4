"""What operators look at: health and metrics."""
