// Draws the saved ipywidgets of a page. The manager gets no loader, so it has the modules that came
// with it and asks no host for others. What it cannot draw keeps its text form.
(async () => {
  const { href } = new URL(".", document.currentScript.src);
  const state = JSON.parse(document.getElementById("saved-ipywidgets").textContent);

  async function manager() {
    const name = "@jupyter-widgets/html-manager";
    requirejs.config({ paths: { [name]: `${href}libembed-amd` } }); // its fonts lie beside it
    const { warn } = console;
    console.warn = () => {}; // while it starts, its validator complains about its own schema
    try {
      return new (await new Promise((done, fail) => requirejs([name], done, fail))).HTMLManager();
    } finally {
      console.warn = warn;
    }
  }

  // The controls have labels that are seen; screen readers and voice control need them as names.
  function nameControls(place) {
    for (const label of place.querySelectorAll('[title="null"]')) label.removeAttribute("title");
    for (const handle of place.querySelectorAll('[role="slider"]')) {
      handle.ariaLabel ||= handle.closest(".jupyter-widgets").querySelector("label").textContent;
    }
    for (const button of place.querySelectorAll("button:not([aria-label])")) {
      const [, icon] = button.querySelector("i")?.className.match(/fa-([\w-]+)/) ?? [];
      if (icon && !button.textContent.trim()) button.ariaLabel = icon;
    }
  }

  const drawing = await manager();
  await drawing.set_state(state);
  for (const place of document.querySelectorAll(".saved-ipywidget > [data-model]")) {
    const text = place.parentElement.querySelector(":scope > .text-form");
    const stand = (drawn) => {
      place.hidden = !drawn;
      if (text) text.hidden = drawn;
    };
    new MutationObserver(() => { // children come one by one
      stand(!place.querySelector(".jupyter-widgets-error-widget"));
      nameControls(place);
    }).observe(place, { childList: true, subtree: true });
    const model = await drawing.get_model(place.dataset.model);
    await drawing.display_view(drawing.create_view(model), place);
  }
})();
