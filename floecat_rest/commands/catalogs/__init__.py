"""Commands for catalogs, namespaces and connectors."""
