"""The record of what happens in a broker: the kinds of events, the ring that keeps the last, and trace files."""
