"""Routes for operators: connectors, registration by location, health, metrics."""
