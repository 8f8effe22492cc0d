// `?figure=two-seats` shows that figure and nothing else, for slides and iframes. Escape or the link
// above it leads back to its place in the chapter.
(() => {
  const name = new URLSearchParams(location.search).get("figure");
  const figure = name && document.getElementById(`figure-${name}`);
  if (!figure) return;
  const back = Object.assign(document.createElement("a"), {
    className: "back-to-chapter",
    href: `${location.pathname}#${figure.id}`,
    textContent: "Back to the chapter",
  });
  figure.prepend(back);
  figure.classList.add("single-figure");
  for (let at = figure; at !== document.body; at = at.parentElement) {
    for (const other of at.parentElement.children) if (other !== at) other.hidden = true;
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.defaultPrevented && !document.fullscreenElement) back.click();
  });
})();
