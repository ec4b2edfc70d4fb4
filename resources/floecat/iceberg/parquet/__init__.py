"""What Parquet footers say of columns, statistics and field ids."""
