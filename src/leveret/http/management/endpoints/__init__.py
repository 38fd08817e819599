"""The endpoints of the management API, a file for each of its subjects."""
