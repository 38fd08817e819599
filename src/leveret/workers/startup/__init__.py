"""The folder that a run with `leveret_hosts` puts into PYTHONPATH; it holds nothing but what Python looks for there."""
