// Who computes: the notebook's kernel where there is one, Python in the page where there is none.

/** Whether this is a published page: only such a page carries its widgets' state with it. */
export const onPage = () =>
  Boolean(document.querySelector('script[type="application/vnd.jupyter.widget-state+json"]'));

const PATIENCE_MS = 30000;

function askKernel(model, parameters) {
  return new Promise((resolve, reject) => {
    const id = `${Date.now()}.${Math.random()}`;
    const settle = (act, value) => { clearTimeout(timer); model.off("msg:custom", hear); act(value); };
    const timer = setTimeout(() => settle(reject, new Error("the kernel does not answer")), PATIENCE_MS);
    const hear = (message) => {
      if (message.id !== id) return;
      if (message.error) settle(reject, new Error(message.error));
      else settle(resolve, message.result);
    };
    model.on("msg:custom", hear);
    model.send({ id, parameters });
  });
}

/** The result of a pure function of `lab`, named "lab.module:function", as plain JSON. */
export function call(model, name, parameters, onProgress = () => {}) {
  if (!onPage()) return askKernel(model, parameters);
  if (!globalThis.tifPython) return Promise.reject(new Error("this page has no Python"));
  return globalThis.tifPython.call(name, parameters, onProgress).then(({ result }) => result);
}

/** Ends a computation in the page. A kernel has its own stop button. */
export const stop = () => globalThis.tifPython?.stop();

/**
 * One question at a time, and of those that come meanwhile only the newest: `ask(question)` must
 * return a promise, and `done(answer)` hears of every answer that nobody has overtaken.
 */
export function newest(ask, done, failed) {
  let busy = false, next = null;
  return async function put(question) {
    if (busy) { next = { question }; return; }
    busy = true;
    try {
      const answer = await ask(question);
      if (!next) done(answer);
    } catch (error) {
      if (!next) failed(error);
    }
    busy = false;
    if (next) { const { question: newer } = next; next = null; put(newer); }
  };
}
