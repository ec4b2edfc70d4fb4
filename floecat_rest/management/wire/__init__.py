"""Bodies of the management routes.

Requests are refused if they hold a field that is not known: no specification but this one makes it grow, and
what is misspelt would be dropped without a word.
"""
