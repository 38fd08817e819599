"""A service in JavaScript and its tests, which drive leveret over HTTP."""
