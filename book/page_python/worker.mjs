// Python in a worker of the page. Asked {id, function, parameters} it answers {id, result, ms};
// asked {id, source} it answers {id, text, error, ms}; where the question fails, {id, error, ms}.
// While it starts it posts {progress, fraction}, then {ready, ms}. After {fatal} it is of no use.
// Every URL is relative to this file, and the build writes the real names and sizes into it.
const PYODIDE = new URL("../pyodide/", import.meta.url).href;
const LAB = new URL("lab.zip", import.meta.url).href;
const BYTES = 1; // of all that is fetched, unpacked
const FETCHING = "Fetching Python (about N MB), once";
const STARTING = "Starting Python";

const began = performance.now();
let missing = null; // what could not be fetched: Pyodide itself would only say that it ended

async function start() {
  postMessage({ progress: FETCHING, fraction: 0 });
  const fetchOnly = globalThis.fetch;
  let bytes = 0;
  globalThis.fetch = async (...request) => {
    const response = await fetchOnly(...request);
    if (!response.ok) throw (missing = new Error(`${response.url} answered ${response.status}`));
    count(response.clone().body.getReader());
    return response;
  };
  async function count(reader) {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      bytes += part.value.length;
      const whole = bytes >= BYTES;
      postMessage(whole ? { progress: STARTING } : { progress: FETCHING, fraction: bytes / BYTES });
    }
  }

  const { loadPyodide } = await import(`${PYODIDE}pyodide.mjs`);
  const lab = fetch(LAB).then((response) => response.arrayBuffer());
  const python = await loadPyodide({ indexURL: PYODIDE });
  globalThis.fetch = fetchOnly;
  postMessage({ progress: STARTING });
  python.unpackArchive(await lab, "zip", { extractDir: "/page" });
  python.runPython('import sys; sys.path.insert(0, "/page")');
  const { answer } = python.pyimport("runner");
  postMessage({ ready: true, ms: performance.now() - began });
  return answer;
}

const ready = start();
ready.catch((error) => {
  postMessage({ fatal: `Python could not start: ${(missing ?? error).message}` });
});

onmessage = async ({ data: { id, ...question } }) => {
  const answer = await ready;
  const asked = performance.now();
  try {
    const told = JSON.parse(answer(JSON.stringify(question)));
    postMessage({ id, ...told, ms: performance.now() - asked });
  } catch (error) {
    // Python catches what code can raise: what comes through has broken Python itself
    postMessage({ fatal: `Python broke down: ${error.message.split("\n")[0]}` });
  }
};
