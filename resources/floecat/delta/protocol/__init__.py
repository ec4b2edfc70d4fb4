"""Terms of the Delta protocol: actions, table features, paths and times of versions."""
