"""Everything that writes table or view metadata: creates, commits, transactions, staging, registration."""
