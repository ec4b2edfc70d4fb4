"""Jobs: kinds of work that outlives a request, the loop that works on them, groups, an operator's view."""
