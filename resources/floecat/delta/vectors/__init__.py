"""Deletion vectors and the bitmaps they are made of."""
