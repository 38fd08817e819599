"""A register of temperatures, with kombu, tested with the standard library's unittest only."""
