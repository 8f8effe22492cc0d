// The replay in the Python of the pages, without a browser:
// node run.mjs PYODIDE LAB_ZIP TESTS GOLDEN prints {python, platform, differences} as JSON.
import { readFile } from "node:fs/promises";
import { join, sep } from "node:path";
import { pathToFileURL } from "node:url";

const [pyodide, lab, tests, golden] = process.argv.slice(2);
try {
  const { loadPyodide } = await import(pathToFileURL(join(pyodide, "pyodide.mjs")));
  const python = await loadPyodide({ indexURL: pyodide + sep });
  python.unpackArchive(new Uint8Array(await readFile(lab)), "zip", { extractDir: "/page" });
  python.mountNodeFS("/tests", tests);
  python.mountNodeFS("/golden", golden);
  console.log(python.runPython(`
import json, pathlib, sys
sys.dont_write_bytecode = True
sys.path[:0] = ["/page", "/tests", "/tests/pyodide"]
import replay
found = replay.differences(pathlib.Path("/golden"))
json.dumps({"python": sys.version, "platform": sys.platform, "differences": found})
`));
} catch (error) {
  // left uncaught, Node would print the one line of Pyodide's whole source before it
  console.error(error.stack);
  process.exitCode = 1;
}
