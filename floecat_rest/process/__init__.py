"""What the requests of a process share, whatever protocol they come by: threads, memory, services."""
