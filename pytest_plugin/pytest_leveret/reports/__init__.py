"""What a run says of its tests: the report of one that failed, what went wrong in it, pages, spans and unused parts."""
