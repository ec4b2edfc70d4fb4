"""What the service says about itself: OpenAPI documents of its routes, and pages for people."""
