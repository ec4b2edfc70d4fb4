"""Lance tables in an Iceberg REST catalog, through the Lance Namespace interface.

Importing this package registers the name ``iceberg-rest``: afterwards
``lance_namespace.connect("iceberg-rest", {...})`` finds `IcebergRestNamespace`. Its class path works without.
"""

from lance_namespace import register_namespace_impl

from floecat.clients.lance.namespace import IcebergRestNamespace

__all__ = ["IcebergRestNamespace"]

register_namespace_impl("iceberg-rest", "floecat.clients.lance.IcebergRestNamespace")
