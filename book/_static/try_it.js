// A cell that is tagged try-it can be changed and run in the page. Until its first run what the
// build printed stands below it.
function tryIt(cell, number) {
  const source = cell.querySelector(".cell_input pre").textContent.trimEnd();
  const saved = cell.querySelector(".cell_output");
  const make = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const button = (text, act) => {
    const made = make("button", { type: "button" }, text);
    made.addEventListener("click", () => made.ariaDisabled !== "true" && act());
    return made;
  };

  const code = make("textarea", {
    id: `try-it-${number}`, value: source, wrap: "off", spellcheck: false,
    autocapitalize: "off", autocomplete: "off",
  });
  const label = make("label", { htmlFor: code.id }, "Try it: change this code and run it");
  const start = button("Run", run);
  start.className = "primary";
  start.title = "Ctrl+Enter in the code does the same";
  const stop = button("Stop", () => tifPython.stop());
  const reset = button("Reset", show);
  const said = make("span", { role: "status" });
  const bar = make("progress", { hidden: true, max: 1 });
  bar.setAttribute("aria-hidden", "true"); // its words are said
  const result = make("pre", { role: "region", ariaLabel: "Result", tabIndex: 0 });
  const told = make("div", { role: "status" }, result);
  const row = make("div", { className: "controls" }, start, stop, reset, bar, said);

  function fit() {
    code.rows = code.value.split("\n").length;
  }

  function say(words, fraction) {
    if (said.textContent !== words) said.textContent = words;
    bar.hidden = fraction === undefined;
    bar.value = fraction ?? 0;
  }

  function busy(is) {
    start.ariaDisabled = String(is);
    stop.ariaDisabled = String(!is);
  }

  function show() {
    code.value = source;
    fit();
    say("");
    result.hidden = true;
    result.textContent = "";
    if (saved) saved.hidden = false;
  }

  async function run() {
    busy(true);
    say("Running");
    result.hidden = true; // what an earlier run said is over
    result.textContent = "";
    try {
      const { text, error, ms } = await tifPython.run(code.value, say);
      if (saved) saved.hidden = true;
      result.hidden = false;
      result.textContent = [text.trimEnd(), error].filter(Boolean).join("\n\n") || "It printed nothing.";
      result.classList.toggle("error", Boolean(error));
      say(error ? "It stopped at an error." : `Done in ${(ms / 1000).toFixed(2)} s.`);
    } catch (error) {
      say(error.message + (saved && !saved.hidden ? " Below is what the book's build printed." : ""));
    }
    busy(false);
  }

  code.addEventListener("input", fit);
  code.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    if (start.ariaDisabled !== "true") run();
  });
  cell.querySelector(".cell_input").replaceChildren(label, code, row, told);
  cell.classList.add("tif-try");
  busy(false);
  show();
}

document.querySelectorAll(".cell.tag_try-it").forEach(tryIt);
