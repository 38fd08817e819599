"""One running broker: the node, the loop that feeds it, the lock around both, and the harness for plugins."""
