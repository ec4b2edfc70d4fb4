"""Definitions by topic; what is shared by several topics is beside them."""
