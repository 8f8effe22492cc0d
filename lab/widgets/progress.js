// What a reader has tried and solved, kept in this browser and nowhere else.

const KEY = "tif-progress";
const MOST = 50; // attempts that are kept of one exercise

/** Where this browser keeps things, or null where it refuses to. */
export function browserStorage() {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}

/** Which exercise this is, in a few characters: an answer is put back only into the one it was given to. */
export function stampOf(exercise) {
  let sum = 5381;
  for (const sign of JSON.stringify(exercise)) sum = (sum * 33 + sign.codePointAt(0)) >>> 0;
  return sum.toString(36);
}

/**
 * The progress kept in `storage`. Without one, or when it fails, the page remembers until it is left.
 * An entry: { variant, stamp, solved, attempts: [{ variant, words, given, right }] }.
 */
export function progressIn(storage) {
  let known = {};

  function all() {
    try {
      const found = JSON.parse(storage.getItem(KEY))?.exercises;
      if (found) known = found;
    } catch { } // denied, or not ours: what this page knows still counts
    return known;
  }
  function keep() {
    try {
      storage.setItem(KEY, JSON.stringify({ version: 1, exercises: known }));
    } catch { } // denied or full
  }
  return {
    all,
    of(id) {
      const entry = all()[id];
      return { variant: 0, stamp: "", solved: false, ...entry, attempts: Array.isArray(entry?.attempts) ? entry.attempts : [] };
    },
    put(id, entry) {
      known = { ...all(), [id]: { ...entry, attempts: entry.attempts.slice(-MOST) } };
      keep();
    },
    clear() {
      known = {};
      try {
        storage.removeItem(KEY);
      } catch { } // denied: there was nothing
    },
  };
}
