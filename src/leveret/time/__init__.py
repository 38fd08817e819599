"""A broker's time: where it comes from, how a test moves it, and how leveret knows that clients have reacted."""
