"""The queues that store messages until a consumer takes them, classic and quorum, and their consumers."""
