"""Files that are written for Iceberg readers: manifests, delete files, copies of data files."""
