"""Plans as clients ask for them: answers, tasks, and the job of a plan that takes long."""
