"""Delta tables that read as Iceberg tables: everything of Delta is here."""
