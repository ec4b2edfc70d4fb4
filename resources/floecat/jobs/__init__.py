"""Jobs: kinds of work that outlives a request, the loop that works on them, and an operator's view."""
