// Brings the widgets of a built page to life without a kernel: finds their saved state, gives each
// its model, and lets its own module draw. A classic script, so that it also works from a file.
(async () => {
  const saved = document.querySelector('script[type="application/vnd.jupyter.widget-state+json"]');
  const state = saved ? JSON.parse(saved.textContent).state : {};
  const modules = new Map();
  const shared = (name) => document.getElementById(name).textContent.replaceAll("<\\/", "</");

  function modelOf(id) {
    if (!state[id]) throw new Error("its saved state is not on this page.");
    const values = { ...state[id].state };
    const listeners = new Map();
    const of = (name) => listeners.get(name) ?? [];
    return {
      get: (name) => values[name],
      set(name, value) {
        if (values[name] === value) return;
        values[name] = value;
        for (const call of [...of(`change:${name}`)]) call(this, value);
      },
      save_changes() {},
      send() {}, // nobody listens: a published page has no kernel
      on: (name, call) => listeners.set(name, [...of(name), call]),
      off: (name, call) => listeners.set(name, of(name).filter((other) => other !== call)),
    };
  }

  function moduleOf(name) {
    if (!modules.has(name)) {
      const url = URL.createObjectURL(new Blob([shared(name)], { type: "text/javascript" }));
      modules.set(name, import(url).then((module) => module.default));
    }
    return modules.get(name);
  }

  function dress(name) {
    if (document.querySelector(`style[data-from="${name}"]`)) return;
    const style = Object.assign(document.createElement("style"), { textContent: shared(name) });
    style.dataset.from = name;
    document.head.append(style);
  }

  /** Lets keys and drawing come first. A page in the background has no frames, only time. */
  const nextFrame = () => new Promise((done) => {
    setTimeout(done, 100);
    requestAnimationFrame(() => setTimeout(done));
  });

  for (const view of document.querySelectorAll('script[type="application/vnd.jupyter.widget-view+json"]')) {
    const place = document.createElement("div");
    view.after(place);
    try {
      const model = modelOf(JSON.parse(view.textContent).model_id);
      dress(model.get("_css"));
      const module = await moduleOf(model.get("_esm"));
      await nextFrame();
      await module.render({ model, el: place });
    } catch (error) {
      place.textContent = `This figure could not start: ${error.message}`;
      console.error(error);
    }
  }
})();
