"""Compression of documents that change a little at a time: what stays the same is compressed once."""
