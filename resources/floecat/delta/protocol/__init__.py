"""Terms of the Delta protocol: actions, table features, schemas, paths and times of versions."""
