"""The page without a mouse."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.page.browser.conftest import Open
from tests.page.browser.stories import shop


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_walk_from_the_first_event_to_its_details_and_back(open_story: Open) -> None:
    page = open_story(shop())

    press(page, "j", "j")
    expect(page.locator(".step.active")).to_contain_text("published #1")
    press(page, "Enter")
    expect(page.locator(".details h2")).to_be_focused()
    press(page, "Escape")
    expect(page.locator(".details")).to_be_hidden()
    expect(page.locator(".steps")).to_be_focused()


def test_arrows_move_and_enter_opens_the_set_up(open_story: Open) -> None:
    page = open_story(shop())
    page.locator(".steps").focus()

    press(page, "ArrowDown", "Enter", "ArrowDown")

    expect(page.locator(".step.active")).to_contain_text("c1 'shop' connected")
    active = page.locator(".steps").get_attribute("aria-activedescendant")
    expect(page.locator(f"#{active}")).to_have_attribute("aria-selected", "true")


def test_n_follows_the_message_and_x_leads_to_the_next_problem(open_story: Open) -> None:
    page = open_story(shop())
    page.locator(".step", has_text="published #2").click()

    press(page, "n", "n")
    expect(page.locator(".step.active")).to_contain_text("rejected #2")
    press(page, "x", "x")
    expect(page.locator(".step.active")).to_contain_text("returned #3")


def test_slash_searches_and_escape_clears_the_search(open_story: Open) -> None:
    page = open_story(shop(), "#queues")

    press(page, "/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("entered dead")
    expect(page.locator("#panel-events .rows [role=row]")).to_have_count(1)
    press(page, "Escape")
    expect(page.get_by_role("searchbox")).to_have_value("")
    expect(page.get_by_role("grid", name="Events")).to_be_focused()


def test_question_mark_shows_the_keys_and_the_marks(open_story: Open) -> None:
    page = open_story(shop())

    press(page, "?")
    dialog = page.get_by_role("dialog", name="Help")
    expect(dialog).to_contain_text("next problem")
    expect(dialog.locator(".legend li")).to_have_count(14)
    press(page, "Escape")
    expect(dialog).to_be_hidden()


def test_single_keys_can_be_turned_off(open_story: Open) -> None:
    page = open_story(shop())
    press(page, "?")
    page.get_by_label("Keys without Ctrl").uncheck()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()

    press(page, "5")

    expect(page.get_by_role("tab", name="Sequence")).to_have_attribute("aria-selected", "true")


def test_tabs_are_one_stop_and_arrows_change_them(open_story: Open) -> None:
    page = open_story(shop())
    page.get_by_role("tab", name="Sequence").focus()

    press(page, "ArrowRight")
    expect(page.get_by_role("tab", name="Messages")).to_be_focused()
    press(page, "End")
    expect(page.get_by_role("tabpanel", name="Events")).to_be_visible()
    press(page, "Tab")
    expect(page.get_by_role("searchbox")).to_be_focused()


def test_every_control_is_reached_by_tab_and_shows_its_focus(open_story: Open) -> None:
    page = open_story(shop())

    seen = []
    for _ in range(20):
        press(page, "Tab")
        seen.append(
            page.evaluate("""() => {
            const element = document.activeElement;
            const outlined = element.closest(".scroller") ?? element;
            return [element.id || element.textContent.slice(0, 12), getComputedStyle(outlined).outlineStyle !== "none"];
        }""")
        )
        if page.locator(".steps").evaluate("(list) => list === document.activeElement"):
            break

    assert [name for name, is_outlined in seen if not is_outlined] == []
    names = [name for name, _ in seen]
    assert {"Show real ti", "theme", "Help", "tab-sequence", "search", "filter-kind", "filter-message"} <= set(names)
    assert len(seen) < 20
