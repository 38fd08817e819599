"""Dead letters: what happens to messages that queues give up."""
