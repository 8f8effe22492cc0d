// Python for the widgets and cells of a page: one worker, started when it is first needed.
//   tifPython.call("lab.module:function", parameters, onProgress)  -> {result, ms}
//   tifPython.run(source, onProgress)                              -> {text, error, ms}
//   tifPython.stop()                        ends what runs; the next call starts anew
// A promise fails with an Error that a reader can read; after stop() its name is "AbortError".
// onProgress(words, fraction or undefined) is told how far Python is: fetching, starting, running.
globalThis.tifPython ??= (() => {
  const { src, dataset } = document.currentScript;
  const pending = new Map();
  let worker = null;
  let progress = null; // how far the worker is, in the arguments of onProgress
  let asked = 0;

  function end(error) {
    worker?.terminate();
    worker = progress = null;
    const waiting = [...pending.values()];
    pending.clear();
    for (const { reject } of waiting) reject(error);
  }

  function listen({ data }) {
    if (data.fatal) {
      end(new Error(data.fatal));
    } else if (data.progress || data.ready) {
      progress = data.ready ? ["Running"] : [data.progress, data.fraction];
      for (const { onProgress } of pending.values()) onProgress(...progress);
    } else {
      const { id, ...told } = data;
      const { resolve, reject } = pending.get(id);
      pending.delete(id);
      if (told.error && told.text === undefined) reject(new Error(told.error));
      else resolve(told);
    }
  }

  function start() {
    if (location.protocol === "file:") {
      throw new Error("Python runs here only when the page comes from a web server, not from a file.");
    }
    worker = new Worker(new URL(dataset.worker, src), { type: "module" });
    worker.onmessage = listen;
    worker.onerror = (event) => end(new Error(`Python could not start: ${event.message ?? "no worker"}`));
  }

  function ask(question, onProgress = () => {}) {
    return new Promise((resolve, reject) => {
      if (!worker) start();
      const id = ++asked;
      pending.set(id, { resolve, reject, onProgress });
      if (progress) onProgress(...progress);
      worker.postMessage({ id, ...question });
    });
  }

  return {
    call: (name, parameters, onProgress) => ask({ function: name, parameters }, onProgress),
    run: (source, onProgress) => ask({ source }, onProgress),
    stop: () => end(Object.assign(new Error("Stopped."), { name: "AbortError" })),
  };
})();
