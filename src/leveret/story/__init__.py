"""The story of a test: facts as values, and the words for them in one place.

A `Timeline` takes the events of a broker, or those of a file's rows, and keeps them as entities that know each other.
`ways` follows them from what a failed test asked for to where it stops, and `diagnosis` says what went wrong. The page,
flows and spans read the same entities. No value is a sentence, and nothing here reads one.

`words` has the words of every kind of event, of every end of a copy and of every reason. The failure texts, the page,
the report, `leveret trace show` and the live page take theirs from it. Nothing here knows a broker or who reads the
story, and a passing test imports none of it.
"""
