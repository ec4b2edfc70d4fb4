"""Files in object storage and on the local disk: addresses, access, what access costs."""
