"""The settings themselves: one struct per concern, each field followed by what it means."""
