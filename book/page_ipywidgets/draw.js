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

  const drawing = await manager();
  await drawing.set_state(state);
  for (const place of document.querySelectorAll(".saved-ipywidget > [data-model]")) {
    try {
      const view = await drawing.create_view(await drawing.get_model(place.dataset.model));
      await drawing.display_view(view, place);
      const text = place.parentElement.querySelector(":scope > .text-form");
      if (text) text.hidden = true;
    } catch (error) {
      place.replaceChildren();
      console.error(error);
    }
  }
})();
