"""The story of a test: facts as values, and the words for them in one place.

A fact is an event of a broker or a row of a trace file; `Fact` names what both have. The modules read facts one by one
and keep values: `lives` what became of each message, `queues` what each queue held at any moment, `clients` who was
connected, `deletions` how queues went, `causes` what went wrong. No value is a sentence, and nothing here reads one.

`words` has the words of every kind of event, of every end of a copy and of every reason. The failure texts, the page,
the report, `leveret trace show` and the live page take theirs from it. Nothing here knows a broker or who reads the
story, and a passing test imports none of it.
"""
