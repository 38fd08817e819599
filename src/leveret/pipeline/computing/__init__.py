"""Where work is done: pieces of it as tasks, in Spark's executors or in processes."""
