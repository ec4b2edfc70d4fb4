"""The migrations of the schema. Before the first release there is one, and stores are not upgraded."""
