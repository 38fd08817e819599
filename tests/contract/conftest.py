"""The services are projects of their own, which the tests run in processes of their own."""

collect_ignore = ["services"]
