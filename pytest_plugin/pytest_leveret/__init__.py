"""The pytest plugin: fixtures, the marker, ini options and the report."""
