"""The page of a test: what happened to its messages, as one HTML file, as text, or as a diagram.

A broker's recorder and a trace file are read into the same rows. `story` makes one story of them, a plain value of
JSON. The page, the text and the diagram only show that story.
"""
