// The copy buttons have a picture and a tooltip, and no name that a screen reader could say.
window.addEventListener("load", () => {
  for (const button of document.querySelectorAll("button.copybtn")) {
    button.setAttribute("aria-label", button.dataset.tooltip ?? "Copy");
  }
});

// What scrolls sideways can be reached by key (the theme sees to it), and says what it is.
function nameBoxes() {
  const boxes = "pre, .output, .pst-scrollable-table-container, .ledger";
  for (const box of document.querySelectorAll(`article :is(${boxes})[tabindex="0"]:not([role])`)) {
    const caption = box.querySelector("caption")?.textContent;
    const kind = box.querySelector("table") ? "Table" : box.closest(".cell_output") ? "Output" : "Source";
    box.setAttribute("role", caption ? "region" : "group"); // so many sources are no landmarks
    box.setAttribute("aria-label", caption ?? kind);
  }
}
window.addEventListener("load", () => setTimeout(nameBoxes));
window.addEventListener("resize", () => setTimeout(nameBoxes, 400)); // the theme needs 300

// On paper what is folded is open, and the ink is dark; afterwards everything is as it was.
let folded = [];
let theme;
window.addEventListener("beforeprint", () => {
  theme = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  folded = [...document.querySelectorAll("article details:not([open])")];
  for (const one of folded) one.open = true;
});
window.addEventListener("afterprint", () => {
  document.documentElement.dataset.theme = theme;
  for (const one of folded) one.open = false;
});

// What a link leads to may stand folded: everything around it opens.
function unfold() {
  const target = document.getElementById(location.hash.slice(1));
  const folds = [];
  for (let at = target; at; at = at.parentElement) if (at.matches("details:not([open])")) folds.push(at);
  for (const fold of folds) fold.open = true;
  if (folds.length) target.scrollIntoView();
}
window.addEventListener("hashchange", unfold);
unfold();

// A printed page says where it was read.
if (location.protocol !== "file:") {
  const address = document.createElement("p");
  address.className = "page-address";
  address.textContent = location.origin + location.pathname;
  document.querySelector(".extra_footer")?.append(address);
}
