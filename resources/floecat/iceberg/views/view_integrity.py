"""Full check of view metadata that another writer made, as when a view is registered."""

from __future__ import annotations

from floecat.errors import IllegalArgumentError, InvalidMetadataError
from floecat.iceberg.metadata.integrity import check_schema_readable
from floecat.iceberg.schemas.new_columns import check_default_forms
from floecat.iceberg.schemas.schema import parse_schema
from floecat.iceberg.values.encoded_json import is_null
from floecat.iceberg.values.json_checks import check_json
from floecat.iceberg.values.text_limits import check_numbers
from floecat.iceberg.views.view_metadata import ViewMetadata
from floecat.iceberg.views.view_versions import check_representations, check_schema_known

__all__ = ["check_view_integrity"]


def check_view_integrity(metadata: ViewMetadata) -> None:
    """Refuses view metadata that some readers cannot read.

    Raises:
        InvalidMetadataError: a schema is invalid, or in a form that readers refuse; a version names a schema
            that is not there, or has two queries of one dialect, or one that is not SQL; `properties` is
            null; a number is too long for readers; an object has a key twice.
    """
    try:
        check_numbers(metadata.to_bytes(), "view metadata")
        check_json(metadata.to_bytes())
        for schema in metadata.schemas.values():
            check_default_forms(parse_schema(schema.encoded))
            check_schema_readable(schema.encoded)
        for version in metadata.versions.values():
            check_schema_known(version, metadata.schemas)
            check_representations(version)
    except IllegalArgumentError as error:
        raise InvalidMetadataError(f"Cannot parse view metadata: {error.message}") from None
    fields = metadata.fields()
    if "properties" in fields and is_null(fields["properties"]):
        raise InvalidMetadataError("Cannot parse view metadata: properties is null")
