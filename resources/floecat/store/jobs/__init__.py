"""Rows of jobs: states and claims, leases, and what purges keep."""
