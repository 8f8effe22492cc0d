// The copy buttons have a picture and a tooltip, and no name that a screen reader could say.
window.addEventListener("load", () => {
  for (const button of document.querySelectorAll("button.copybtn")) {
    button.setAttribute("aria-label", button.dataset.tooltip ?? "Copy");
  }
});
