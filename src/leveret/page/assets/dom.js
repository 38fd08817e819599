"use strict";

// Elements of the page. Text from the story becomes a text node and never markup.

/** @typedef {Node | string | number | null | undefined | false} Child */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Return a new HTML element. An attribute that starts with "on" is a listener; null and false leave an attribute out.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, unknown>} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  decorate(element, attributes ?? {}, children);
  return element;
}

/**
 * @param {string} className
 * @param {...Child} children
 */
function div(className, ...children) {
  return el("div", { class: className || null }, ...children);
}

/**
 * @param {string} className
 * @param {...Child} children
 */
function span(className, ...children) {
  return el("span", { class: className || null }, ...children);
}

/**
 * @param {Child} label
 * @param {() => void} onclick
 * @param {Record<string, unknown>} [attributes]
 */
function button(label, onclick, attributes) {
  return el("button", { type: "button", onclick, ...attributes }, label);
}

/**
 * Return a new SVG element.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, unknown>} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[T]}
 */
function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  decorate(element, attributes ?? {}, children);
  return element;
}

/**
 * @param {string} className
 * @param {string} d
 */
function path(className, d) {
  return svg("path", { class: className, d });
}

/**
 * @param {Element} element
 * @param {Record<string, unknown>} attributes
 * @param {Child[]} children
 */
function decorate(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  fill(element, ...children);
}

/**
 * Append children to an element; null and false stand for nothing.
 * @param {Element} element
 * @param {...Child} children
 */
function fill(element, ...children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : readable(String(child)));
  }
}

/**
 * Return text whose marks of direction can be seen, by which a name could hide what it is.
 * @param {string} text
 */
function readable(text) {
  return text.replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (mark) => `\\u${mark.charCodeAt(0).toString(16)}`);
}

/**
 * Replace what an element contains.
 * @param {Element} element
 * @param {...Child} children
 */
function refill(element, ...children) {
  element.replaceChildren();
  fill(element, ...children);
}

/**
 * Return "1 event" or "2 events".
 * @param {number} count
 * @param {string} noun
 */
function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * @param {number} value
 * @param {number} low
 * @param {number} high
 */
function clamp(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

/**
 * Return the panel of a view; only the chosen one is shown.
 * @param {string} view
 * @param {...Child} children
 */
function panelOf(view, ...children) {
  return el(
    "section",
    {
      class: "panel",
      id: `panel-${view}`,
      role: "tabpanel",
      "aria-labelledby": `tab-${view}`,
      "data-title": TITLES[view],
      hidden: state.view !== view,
    },
    ...children,
  );
}

/**
 * Return a part of the page that scrolls, by keys too.
 * @param {string} label
 * @param {string} className
 * @param {...Child} children
 */
function region(label, className, ...children) {
  return el("div", { class: className, role: "region", "aria-label": label, tabindex: 0 }, ...children);
}

/**
 * Return a definition list of names and values.
 * @param {[string, Child][]} pairs
 */
function facts(pairs) {
  return el(
    "dl",
    { class: "facts" },
    ...pairs.map(([name, value]) => div("", el("dt", {}, name), el("dd", {}, value))),
  );
}

/**
 * Return a short table: it is drawn whole, so keep long lists elsewhere.
 * @param {string} caption
 * @param {string[]} titles
 * @param {Child[][]} rows
 */
function plainTable(caption, titles, rows) {
  return el(
    "div",
    { class: "scroll-x", role: "group", "aria-label": caption, tabindex: 0 },
    el(
      "table",
      { class: "plain" },
      el("caption", { class: "unseen" }, caption),
      el("thead", {}, el("tr", {}, ...titles.map((title) => el("th", { scope: "col" }, title)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, cell))))),
    ),
  );
}
