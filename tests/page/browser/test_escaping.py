"""Names and bodies that look like markup. The fixture holds the console to silence and the policy to be intact."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.page.browser.conftest import Open
from tests.page.browser.stories import hostile, shop


@pytest.mark.parametrize("place", ["#sequence", "#messages", "#queues", "#topology", "#events", "#message-1"])
def test_markup_in_names_and_bodies_stays_text(read_story: Open, place: str) -> None:
    page = read_story(hostile(), place)

    expect(page.locator("h1")).to_contain_text("</script><script>window.pwned = 1</script><img")
    expect(page.locator("img:not([role])")).to_have_count(0)
    assert page.evaluate("window.pwned") is None


def test_nul_in_a_body_can_be_seen(open_story: Open) -> None:
    page = open_story(hostile(), "#message-1")

    page.get_by_role("button", name="Text").click()

    expect(page.locator(".code").last).to_contain_text("\u2400")


def test_policy_refuses_a_script_that_is_added_later(open_story: Open, expected_noise: list[str]) -> None:
    expected_noise.append("Executing inline script violates")
    page = open_story(shop())

    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.pwned = 3";
        document.body.append(script);
    }""")

    assert page.evaluate("window.pwned") is None
    refused = page.evaluate("window.violations.splice(0)")
    assert [directive for directive in refused if directive.startswith("script-src")]


def test_address_that_names_nothing_shows_the_sequence(open_story: Open) -> None:
    page = open_story(shop(), "#message-99?view=<b>&text=%")

    expect(page.get_by_role("tab", name="Sequence")).to_have_attribute("aria-selected", "true")
