"""Who asks: principals, and the validation of bearer tokens."""
