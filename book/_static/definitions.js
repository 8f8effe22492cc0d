// A term or a tag opens its definition beside itself: on click and tap, on focus, under the pointer.
// Without this script it is a link to the glossary. A classic script, so that it also works from a
// file. The definitions stand hidden at the end of the page, see book/_ext/definitions.py.
(() => {
  const DELAY_MS = 200; // a pointer that only passes opens nothing, and may leave for a moment
  const MARGIN = 8;
  const card = document.createElement("div");
  card.className = "definition-card";
  card.popover = "manual";
  let link = null; // whose definition is shown
  let isPinned = false; // opened by a click: stays until the next one
  let timer = 0;

  const definitionOf = (one) => document.getElementById(`definition-${decodeURIComponent(one.hash.slice(1))}`);

  function linkAt(node) {
    const found = node instanceof Element && node.closest("article a[href*='#term-']");
    return found && !card.contains(found) && definitionOf(found) ? found : null; // in a card it leads on
  }

  function fill(one) {
    const definition = definitionOf(one);
    const name = Object.assign(document.createElement("strong"), { textContent: definition.dataset.name });
    const more = document.createElement("a");
    more.href = one.href;
    more.textContent = one.querySelector(".tag") ? "What the tags mean" : "In the glossary";
    card.replaceChildren(name, ...definition.cloneNode(true).children, more);
  }

  function place(one) {
    const [box, size] = [one.getClientRects()[0], card.getBoundingClientRect()];
    const width = document.documentElement.clientWidth;
    const isBelow = box.bottom + size.height + MARGIN < innerHeight || box.top < size.height + MARGIN;
    const left = Math.max(MARGIN, Math.min(box.left, width - size.width - MARGIN));
    card.style.left = `${left + scrollX}px`;
    card.style.top = `${(isBelow ? box.bottom + 2 : box.top - size.height - 2) + scrollY}px`;
  }

  function open(one, { pin = false } = {}) {
    clearTimeout(timer);
    isPinned = pin;
    if (link === one) return;
    close();
    link = one;
    fill(one);
    one.after(card); // so that the next Tab goes into it
    card.showPopover();
    place(one);
  }

  function close() {
    clearTimeout(timer);
    if (!link) return;
    if (card.contains(document.activeElement)) link.focus();
    link = null;
    isPinned = false;
    card.hidePopover();
    card.remove();
  }

  function wait(act) {
    clearTimeout(timer);
    timer = setTimeout(act, DELAY_MS);
  }

  for (const one of document.querySelectorAll("article a[href*='#term-']")) {
    const definition = definitionOf(one);
    if (definition) one.setAttribute("aria-describedby", definition.id);
  }

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "mouse" || isPinned) return;
    const over = linkAt(event.target);
    if (over) wait(() => open(over));
    else if (card.contains(event.target)) clearTimeout(timer);
    else if (link && link !== document.activeElement) wait(close);
    else if (!link) clearTimeout(timer);
  });
  document.addEventListener("focusin", (event) => {
    const focused = linkAt(event.target);
    if (focused?.matches(":focus-visible")) open(focused);
    else if (!focused && !card.contains(event.target)) close();
  });
  document.addEventListener("click", (event) => {
    const clicked = linkAt(event.target);
    if (clicked && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      if (clicked === link && isPinned) close();
      else open(clicked, { pin: true });
    } else if (!card.contains(event.target)) close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !link) return;
    event.preventDefault(); // this Escape is used up
    close();
  });
  window.addEventListener("resize", () => link && place(link));
})();
