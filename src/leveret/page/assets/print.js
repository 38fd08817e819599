// The page on paper: every view, and after them every message.

const MOST_MESSAGES_ON_PAPER = 40;

/** @param {{rows: Record<string, Rows>, sequence: Sequence}} views */
function preparePrinting(views) {
  /** @type {HTMLElement | undefined} */
  let appendix;
  /** @param {boolean} isPrinting */
  function print(isPrinting) {
    if (state.isPrinting === isPrinting) return;
    change({ isPrinting });
    appendix?.remove();
    if (isPrinting) document.body.append((appendix = messagesOnPaper()));
    views.sequence.resize();
    for (const rows of Object.values(views.rows)) rows.refresh();
  }
  const paper = matchMedia("print");
  paper.addEventListener("change", () => print(paper.matches));
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(paper.matches));
  print(paper.matches);
}

function messagesOnPaper() {
  const shown = story.messages.slice(0, MOST_MESSAGES_ON_PAPER);
  const left = story.messages.length - shown.length;
  const events = Math.max(0, shownEvents().length - MOST_ON_PAPER);
  return el(
    "section",
    { class: "paper" },
    el("h2", {}, "Each message"),
    ...shown.map((message) =>
      el("article", { class: "on-paper" }, el("h2", {}, ...messageTitle(message)), ...messageParts(message)),
    ),
    left > 0 && el("p", {}, `Left out on paper: ${counted(left, "further message")}.`),
    events > 0 && el("p", {}, `Left out on paper: ${counted(events, "further event")}.`),
  );
}
