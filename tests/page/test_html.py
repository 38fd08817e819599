"""The HTML file around a story: the joined assets, and what is left of them."""

from __future__ import annotations

from leveret.page.html import _squeezed_script, _squeezed_style, assets, page_of

SCRIPT = """
// A comment that fills its line.
/** A comment
 * of several lines with a ` in it.
 */
function draw(name) {
  /** @type {string} */ const text = `first ${name}
    // no comment
      indented`;
  return text; // kept
}
"""
STORY = {
    "test": {"id": "test_<b>&", "outcome": "failed"},
    "events": [],
    "messages": [],
    "brokers": [],
    "cut": {"events": 0, "bodies": 0},
}


def test_a_script_loses_comments_and_indentation_and_no_code():
    assert _squeezed_script(SCRIPT).split("\n") == [
        "function draw(name) {",
        "const text = `first ${name}",
        "    // no comment",
        "      indented`;",
        "return text; // kept",
        "}",
    ]


def test_a_style_loses_comments_and_indentation():
    assert _squeezed_style("/* a\n b */\nbody {\n  color: red; /* c */\n}\n") == "body {\ncolor: red;\n}"


def test_every_asset_is_in_the_page():
    assert assets().style
    assert "JSON.parse" in assets().script
    assert "</script" not in assets().script
    assert "</style" not in assets().style


def test_the_title_is_escaped():
    assert "<title>failed test_&lt;b&gt;&amp;</title>" in page_of(STORY)
