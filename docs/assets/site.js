// The theme puts the button that copies a block of code into a landmark. Dozens of landmarks without a name help nobody
// who moves from one to the next, so they are none here.
new MutationObserver(() => {
  for (const place of document.querySelectorAll("nav.md-code__nav:not([role])")) {
    place.setAttribute("role", "presentation");
  }
}).observe(document.documentElement, { childList: true, subtree: true });
