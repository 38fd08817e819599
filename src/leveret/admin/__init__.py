"""What an operator does with rabbitmqctl, and definitions.json in both directions."""
