"""Applications and their tests. `python -m examples` runs each application against a broker and tells what happened."""
