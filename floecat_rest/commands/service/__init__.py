"""Commands that start and stop programs, and prepare the store: `floecat up`, `serve`, `dagster`…"""
