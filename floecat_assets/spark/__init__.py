"""Code that runs on Spark. Nothing here knows the orchestrator, so that executors need not have it."""
