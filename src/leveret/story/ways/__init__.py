"""A shelf: the walk from what a failed test asked for to what happened, and why its way stops."""
