"""The HTML file around a story: the joined assets, and what is left of them."""

from __future__ import annotations

from leveret.page.html import _squeezed_script, _squeezed_style, assets, page_of

SCRIPT = r"""
// A comment that fills its line.
/** A comment
 * of several lines with a ` in it.
 */
function draw(name) {
  /** @type {string} */ const text = `first ${name}
    // no comment
      indented`;
  return text + "a = b, c".replace(/"(?: x, )\/ = /, ""); // gone
}
"""
STORY = {
    "test": {"id": "test_<b>&", "outcome": "failed"},
    "events": [],
    "messages": [],
    "brokers": [],
    "cut": {"events": 0, "bodies": 0},
}


def test_a_script_loses_comments_and_spaces_and_no_code():
    assert _squeezed_script(SCRIPT) == (
        "function draw(name){const text=`first ${name}\n    // no comment\n      indented`;"
        'return text+"a = b, c".replace(/"(?: x, )\\/ = /,"")}'
    )


def test_a_style_loses_comments_and_spaces():
    assert (
        _squeezed_style("/* a\n b */\nbody > a,\nb:hover {\n  color: red; /* c */\n}\n") == "body>a,b:hover{color:red}"
    )


def test_the_assets_take_no_more_than_92_kilobytes():
    assert len(assets().style) + len(assets().script) <= 92_000


def test_every_asset_is_in_the_page():
    assert assets().style
    assert "JSON.parse" in assets().script
    assert "</script" not in assets().script
    assert "</style" not in assets().style


def test_the_title_is_escaped():
    assert "<title>failed test_&lt;b&gt;&amp;</title>" in page_of(STORY)
