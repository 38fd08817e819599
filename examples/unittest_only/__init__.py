"""A register of temperatures, with kombu, tested by the standard library's unittest alone."""
