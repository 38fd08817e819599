"""`leveret init`: what a project has, and what to write so that its tests run on leveret."""
