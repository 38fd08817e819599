"""The tables of a run, a file for each subject."""
