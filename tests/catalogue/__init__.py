"""One catalogue of services with a planted bug, on which every finder is tried."""
