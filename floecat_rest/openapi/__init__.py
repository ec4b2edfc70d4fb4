"""OpenAPI documents of the routes of the service, and pages for people."""
