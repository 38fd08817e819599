"""A dispatcher of parcels, with tests that all begin with depots as full as at night."""
