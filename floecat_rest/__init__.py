"""The service process: the Iceberg REST contract over HTTP, and the command line that starts it."""
