"""An AMQP conversation: it turns bytes into calls on the model, and the model's answers into bytes."""
