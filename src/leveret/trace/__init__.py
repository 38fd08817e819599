"""What happened in a broker: the event kinds, and the recorder that keeps them."""
