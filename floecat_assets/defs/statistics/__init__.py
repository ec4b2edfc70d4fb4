"""Statistics of snapshots: captures that are worked on here, and what they found."""
