"""How a table follows its log: versions become snapshots, when it is loaded and in the pipeline."""
