// A list of rows of one height, of which only those in sight exist as elements. The list, or the `focus` around it,
// keeps the focus and names the active row, so that a row may vanish while it is scrolled away.

/**
 * @typedef {{
 *   scroller: HTMLElement, list: HTMLElement, id: string, rowHeight: number, count: number,
 *   make: (index: number) => HTMLElement, onActive: (index: number) => void, onOpen: (index: number) => void,
 *   headHeight?: () => number, focus?: HTMLElement
 * }} RowsOptions
 */

// Rows drawn beyond each edge, so that a small scroll finds them there.
const MARGIN = 12;
// On paper, and for a reader who prints by accident.
const MOST_ON_PAPER = 400;

class Rows {
  /** @param {RowsOptions} options */
  constructor(options) {
    this.options = options;
    this.active = -1;
    /** @type {Map<number, HTMLElement>} */
    this.drawn = new Map();
    this.isQueued = false;
    const { scroller, list } = options;
    this.focus = options.focus ?? list;
    this.focus.tabIndex = 0;
    list.classList.add("rows");
    scroller.addEventListener("scroll", () => this.drawSoon(), { passive: true });
    new ResizeObserver(() => this.drawSoon()).observe(scroller);
    this.focus.addEventListener("keydown", (event) => this.onKey(event));
    list.addEventListener("click", (event) => {
      const row = /** @type {Element} */ (event.target).closest("[data-row]");
      if (!(row instanceof HTMLElement) || String(getSelection())) return;
      this.options.onOpen(Number(row.dataset.row));
      this.focus.focus({ preventScroll: true });
    });
  }

  /** Draw all rows in sight anew, because they have changed. */
  refresh() {
    for (const element of this.drawn.values()) element.remove();
    this.drawn.clear();
    this.options.list.style.height = `${this.options.count * this.options.rowHeight}px`;
    this.draw();
  }

  drawSoon() {
    if (this.isQueued) return;
    this.isQueued = true;
    requestAnimationFrame(() => {
      this.isQueued = false;
      this.draw();
    });
  }

  draw() {
    const { scroller, count, rowHeight, id } = this.options;
    let first = 0;
    let last = Math.min(count, MOST_ON_PAPER) - 1;
    if (!state.isPrinting) {
      if (!scroller.clientHeight) return;
      first = Math.max(0, Math.floor(scroller.scrollTop / rowHeight) - MARGIN);
      last = Math.min(count - 1, Math.ceil((scroller.scrollTop + scroller.clientHeight) / rowHeight) + MARGIN);
    }
    for (const [index, element] of this.drawn) {
      if ((index < first || index > last) && index !== this.active) {
        element.remove();
        this.drawn.delete(index);
      }
    }
    for (let index = first; index <= last; index++) this.ensure(index);
    if (this.active >= 0 && this.active < count) {
      this.ensure(this.active);
      this.focus.setAttribute("aria-activedescendant", `${id}-${this.active}`);
    } else this.focus.removeAttribute("aria-activedescendant");
  }

  /** @param {number} index */
  ensure(index) {
    if (this.drawn.has(index)) return;
    const element = this.options.make(index);
    element.id = `${this.options.id}-${index}`;
    element.dataset.row = String(index);
    if (element.role === "option") {
      element.ariaPosInSet = String(index + 1);
      element.ariaSetSize = String(this.options.count);
    }
    element.style.top = `${index * this.options.rowHeight}px`;
    element.classList.toggle("active", index === this.active);
    if (element.hasAttribute("aria-selected")) element.setAttribute("aria-selected", String(index === this.active));
    this.drawn.set(index, element);
    this.options.list.append(element);
  }

  /**
   * Make a row the active one and bring it into sight.
   * @param {number} index
   */
  activate(index) {
    if (index === this.active) return;
    for (const [isActive, row] of /** @type {[boolean, number][]} */ ([
      [false, this.active],
      [true, index],
    ])) {
      const element = this.drawn.get(row);
      element?.classList.toggle("active", isActive);
      if (element?.hasAttribute("aria-selected")) element.setAttribute("aria-selected", String(isActive));
    }
    this.active = index;
    this.reveal();
    this.draw();
  }

  reveal() {
    const { scroller, rowHeight } = this.options;
    if (this.active < 0 || !scroller.clientHeight || state.isPrinting) return;
    const head = this.options.headHeight?.() ?? 0;
    const top = this.active * rowHeight;
    const room = this.seenHeight() - head - rowHeight;
    if (top < scroller.scrollTop || top > scroller.scrollTop + room) {
      scroller.scrollTop = Math.max(0, top - room / 2);
    }
  }

  /** Return the height of the part that the window shows, which may end above the end of the list. */
  seenHeight() {
    const { scroller, rowHeight } = this.options;
    const seen = Math.floor(innerHeight - scroller.getBoundingClientRect().top);
    return clamp(seen, Math.min(4 * rowHeight, scroller.clientHeight), scroller.clientHeight);
  }

  /** Return how many rows a page has. */
  page() {
    return Math.max(1, Math.floor(this.options.scroller.clientHeight / this.options.rowHeight) - 2);
  }

  /** @param {number} by */
  move(by) {
    const { count, onActive } = this.options;
    if (!count) return;
    onActive(clamp(this.active < 0 && by > 0 ? by - 1 : this.active + by, 0, count - 1));
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const { count, onOpen } = this.options;
    /** @type {Record<string, () => void>} */
    const actions = {
      ArrowDown: () => this.move(1),
      ArrowUp: () => this.move(-1),
      PageDown: () => this.move(this.page()),
      PageUp: () => this.move(-this.page()),
      Home: () => this.move(-count),
      End: () => this.move(count),
      Enter: () => this.active >= 0 && onOpen(this.active),
      " ": () => this.active >= 0 && onOpen(this.active),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  }
}
