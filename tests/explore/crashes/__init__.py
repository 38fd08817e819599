"""Small services with one planted bug each, beside their mended twins, for tests of what exploration finds."""
