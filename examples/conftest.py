"""What is collected here: each project in frameworks is run in its own folder, see tests/frameworks."""

collect_ignore = ["frameworks"]
