-- Dagster keeps its records apart from the catalog.
CREATE DATABASE dagster;
