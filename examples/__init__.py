"""Applications and their tests. `python -m examples` runs each against a broker and prints what happened."""
