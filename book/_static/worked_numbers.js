// The list of worked numbers: search in it, and copy the lines that compute a number. Without this
// script all rows are there. A classic script, so that it also works from a file.
(() => {
  const field = document.getElementById("number-search");
  const said = field.parentElement.querySelector("[role=status]");
  const copied = document.getElementById("number-copied");
  const rows = [...document.querySelectorAll(".number-row")].map((row) => ({ row, text: textOf(row) }));
  const sections = new Set(rows.map(({ row }) => row.closest("section")));

  // What can be found: what is read in a row and the name of its topic, but not its code.
  function textOf(row) {
    const topic = row.closest("section").querySelector("h2").textContent;
    const told = [...row.children].filter((part) => !part.matches("details, button"));
    return [topic, row.dataset.in, ...told.map((part) => part.textContent)].join(" ").toLowerCase();
  }

  // Every word must be there; "chapter 1" is one word, and not the beginning of "chapter 10".
  function search() {
    const words = field.value.toLowerCase().match(/chapter +\d+|\S+/g) ?? [];
    const isIn = (text) => (word) =>
      /^chapter /.test(word) ? new RegExp(`\\b${word}\\b`).test(text) : text.includes(word);
    for (const { row, text } of rows) row.hidden = !words.every(isIn(text));
    for (const section of sections) {
      section.hidden = !section.querySelector(".number-row:not([hidden])");
      const fold = section.querySelector(":scope > details");
      if (fold && words.length) fold.open = true;
    }
    said.textContent = ["entries", "notes on the sources"].map((kind, isNote) => {
      const all = rows.filter(({ row }) => row.matches(".source-note") === Boolean(isNote));
      const found = all.filter(({ row }) => !row.hidden);
      return `${words.length ? `${found.length} of ` : ""}${all.length} ${kind}`;
    }).join(", ");
  }

  // A link to a row that the search has hidden ends the search.
  function show() {
    const target = document.getElementById(location.hash.slice(1));
    if (!target?.closest("[hidden]")) return;
    field.value = "";
    search();
    target.scrollIntoView();
  }

  async function copy(button) {
    const code = button.nextElementSibling.querySelector("pre");
    try {
      await navigator.clipboard.writeText(`${code.textContent}\n`);
      copied.textContent = button.textContent = "Copied";
      setTimeout(() => {
        copied.textContent = "";
        button.textContent = "Copy the lines";
      }, 2000);
    } catch { // no clipboard here, as on a page without https: the lines are selected instead
      button.nextElementSibling.open = true;
      getSelection().selectAllChildren(code);
      copied.textContent = "The lines are selected: copy them with the keyboard";
    }
  }

  for (const button of document.querySelectorAll(".number-row > button")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }
  field.parentElement.hidden = false;
  field.addEventListener("input", search);
  window.addEventListener("hashchange", show);
  window.addEventListener("pageshow", () => { // going back brings the words back as well
    search();
    show();
  });
})();
