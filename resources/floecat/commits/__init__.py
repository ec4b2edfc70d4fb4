"""Writers of metadata: creates, commits, staged creates, registration; of tables and of views."""
