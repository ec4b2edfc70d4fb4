"""Threads, memory and services that the requests of a process share, whatever protocol they come by."""
