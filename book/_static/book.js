// The copy buttons have a picture and a tooltip, and no name that a screen reader could say.
window.addEventListener("load", () => {
  for (const button of document.querySelectorAll("button.copybtn")) {
    button.setAttribute("aria-label", button.dataset.tooltip ?? "Copy");
  }
});

// What is folded on the screen is open on paper, and folded again afterwards.
let openedForPaper = [];
window.addEventListener("beforeprint", () => {
  openedForPaper = [...document.querySelectorAll("article details:not([open])")];
  for (const folded of openedForPaper) folded.open = true;
});
window.addEventListener("afterprint", () => {
  for (const folded of openedForPaper) folded.open = false;
});

// A printed page says where it was read.
if (location.protocol !== "file:") {
  const address = document.createElement("p");
  address.className = "page-address";
  address.textContent = location.origin + location.pathname;
  document.querySelector(".footer-content__inner")?.append(address);
}
