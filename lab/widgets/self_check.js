// Self-checks: a reader answers, and hears what is right, what is wrong and which turn led there.

import { element, keepKeys } from "./dom.js";
import { call } from "./engine.js";
import { fieldFor } from "./fields.js";
import { inWords, judge } from "./judge.js";
import { inline, paragraphs } from "./markup.js";
import { player } from "./player.js";
import { browserStorage, progressIn, stampOf } from "./progress.js";
import { reveal } from "./reveal.js";

const BAKED = 12; // variants that a page carries; a seed is taken modulo this number

/** The variant that `?seed=N` asks for, or null where the page has no such word. */
export function variantOf(search) {
  const seed = new URLSearchParams(search).get("seed");
  return /^\d+$/.test(seed ?? "") ? Number(BigInt(seed) % BigInt(BAKED)) : null;
}

/** Says whether a button can act; it keeps the focus while it cannot. */
const able = (node, can) => node.setAttribute("aria-disabled", !can);

/** A button that is read as it is written. */
function act(text, does) {
  return element("button", { type: "button", textContent: text, onclick: does });
}

/** Where verdicts are said: it stays while the exercise changes, so that screen readers hear it. */
function speaker() {
  const node = element("div", { className: "verdict" });
  node.setAttribute("role", "status");
  return {
    node,
    hush() { node.className = "verdict"; node.replaceChildren(); },
    say(right, head, { says = "", lines = [] } = {}) {
      node.className = `verdict ${{ true: "right", false: "wrong" }[right] ?? "open"}`;
      const sign = { true: "✓ ", false: "✗ " }[right] ?? "";
      const first = element("p", {}, element("strong", { textContent: `${sign}${head}` }), ...(says ? [" ", ...inline(says)] : []));
      const more = lines.length > 1 ? [element("ul", {}, ...lines.map((line) => element("li", {}, ...inline(line))))]
        : lines.map((line) => element("p", {}, ...inline(line)));
      node.replaceChildren(first, ...more);
    },
  };
}

/** Hints, one at a time. */
function hintsOf(hints) {
  const list = element("ol", { className: "hints" });
  list.setAttribute("aria-live", "polite");
  const more = act("", () => {
    if (list.children.length < hints.length) list.append(element("li", {}, ...inline(hints[list.children.length])));
    count();
  });
  function count() {
    const next = list.children.length + 1;
    more.textContent = next > hints.length ? "No more hints" : `Hint ${next} of ${hints.length}`;
    able(more, next <= hints.length);
  }
  count();
  return { list, buttons: hints.length ? [more] : [] };
}

/** The worked answer behind a button, which acts once `allow(true)` was called. */
function workedOf(lines) {
  const place = element("div", { className: "worked" });
  let allowed = false;
  const show = act("", () => {
    if (!allowed) return;
    place.replaceChildren(...(place.children.length ? [] : [element("ol", {}, ...lines.map((line) => element("li", {}, ...inline(line))))]));
    tell();
  });
  function tell() {
    const open = place.children.length > 0;
    show.textContent = open ? "Hide the worked answer" : "Show the worked answer";
    show.title = allowed ? "" : "Opens after your first try";
    show.setAttribute("aria-expanded", open);
    able(show, allowed);
  }
  tell();
  return { place, show, allow(is) {
    allowed = is;
    if (!is) place.replaceChildren();
    tell();
  } };
}

/** What was tried so far, folded. */
function attemptsOf(attempts) {
  if (!attempts.length) return [];
  const items = attempts.map(({ words, right }) => element("li", { textContent: `${words}: ${right ? "right" : "not right"}` }));
  return [element("details", { className: "attempts" },
    element("summary", { textContent: `Your tries: ${attempts.length}` }), element("ol", {}, ...items))];
}

/** The body of an exercise that may be tried as often as one likes. */
function practice(exercise, { speak, last, attempts, record, more }) {
  const check = () => {
    const given = field.read();
    const verdict = judge(exercise, given);
    if (verdict.right === null) return speak.say(null, "Not checked.", verdict);
    tell(verdict);
    tried.replaceChildren(...attemptsOf(record(given, verdict)));
  };
  const field = fieldFor(exercise, check);
  const { list, buttons } = hintsOf(exercise.hints);
  const worked = workedOf(exercise.worked);
  const tried = element("div", {}, ...attemptsOf(attempts));
  const main = act("Check", check);
  main.className = "primary";
  function tell(verdict) {
    speak.say(verdict.right, verdict.right ? "Right." : "Not right.", verdict);
    field.mark?.(verdict);
    worked.allow(true);
  }
  if (last) {
    field.write(last);
    tell(judge(exercise, last));
  }
  return {
    nodes: [field.node, element("div", { className: "controls" }, main, ...buttons, worked.show, ...more),
      speak.node, list, worked.place, tried],
    destroy() {},
  };
}

/** The body of a guess: it is given once, then truth and figure appear. */
function prediction(exercise, { speak, last, record, forget, more, scenes }) {
  const { answer } = exercise;
  const shown = element("div", { className: "reveal" });
  let playing = null;
  const field = fieldFor(exercise, () => commit());
  const { list, buttons } = hintsOf(exercise.hints);
  const worked = workedOf(exercise.worked);
  const main = act("Commit my guess", () => (shown.children.length ? again() : commit()));
  main.className = "primary";
  const skip = act("Show me without guessing", () => { main.focus(); open(null, {}); record(null, {}); });

  function commit() {
    const given = field.read();
    const verdict = judge(exercise, given);
    if (verdict.right === null) return speak.say(null, "Not committed.", verdict);
    open(given, verdict);
    record(given, verdict);
  }
  function open(given, verdict) {
    field.lock(true);
    field.node.hidden = true; // the guess is shown beside the truth
    const why = given ? verdict : { says: "Here is what happens." };
    speak.say(given ? verdict.right : null, given ? (verdict.right ? "Your guess is right." : "Your guess is off.") : "Not guessed.", why);
    const figure = element("div");
    shown.replaceChildren(reveal(answer, given, verdict.x), ...paragraphs(answer.why), figure);
    if (scenes.length) playing = player(figure, scenes);
    worked.allow(true);
    main.textContent = "Guess again";
    skip.hidden = true;
  }
  function close() {
    playing?.destroy();
    playing = null;
    shown.replaceChildren();
    worked.allow(false);
    field.lock(false);
    field.node.hidden = false;
    main.textContent = "Commit my guess";
    skip.hidden = false;
  }
  function again() {
    close();
    field.write();
    speak.hush();
    forget();
  }
  if (last !== undefined) {
    field.write(last ?? undefined);
    open(last, last ? judge(exercise, last) : {});
  }
  return {
    nodes: [field.node, element("div", { className: "controls" }, main, skip, ...buttons, worked.show, ...more),
      speak.node, list, shown, worked.place],
    destroy: close,
  };
}

/** One exercise: its number and title, and a body for the variant that is shown. */
function card({ id, number, variants }, { scenes, progress, seed, further, changed }) {
  const speak = speaker();
  const kept = progress.of(id);
  let k = seed ?? kept.variant, exercise, shown = null;
  const [{ title }] = variants;
  const link = element("a", { href: `#exercise-${id}`, textContent: number ? `Exercise ${number}` : title });
  const solved = element("span", { className: "solved" });
  const body = element("div");
  const root = element("article", { className: "exercise", id: `exercise-${id}` },
    element("h3", { id: `title-${id}` }, link, number ? `: ${title}` : "", " ", solved), body);
  root.setAttribute("aria-labelledby", `title-${id}`);
  const fresh = act("New numbers", async () => {
    k += 1;
    let told = "New numbers.";
    if (k < variants.length) exercise = variants[k];
    else try {
      exercise = await further(id, k, (words) => speak.say(null, `${words}.`));
    } catch (error) {
      k %= variants.length;
      exercise = variants[k];
      told = `These numbers come again: ${error.message}`;
    }
    const focused = fresh.matches(":focus");
    show();
    if (focused) fresh.focus();
    speak.say(null, told);
  });

  /** Puts an attempt on record, and gives back all for this variant. */
  function record(given, { right = false }) {
    const before = progress.of(id);
    const attempt = { variant: k, given, right, words: given ? inWords(exercise, given) : "not guessed" };
    const attempts = [...before.attempts, attempt];
    progress.put(id, { variant: k, stamp: stampOf(exercise), solved: before.solved || right, attempts });
    told();
    return here(attempts);
  }
  const here = (attempts) => attempts.filter(({ variant }) => variant === k);
  function told() {
    solved.textContent = exercise.kind !== "predict" && progress.of(id).solved ? "✓ solved" : "";
    changed();
  }
  function show() {
    shown?.destroy();
    speak.hush();
    const { stamp, variant, attempts } = progress.of(id);
    const tried = variant === k && stamp === stampOf(exercise) ? here(attempts) : [];
    const forget = () => progress.put(id, { variant: k, stamp: "", solved: false, attempts: [] });
    const ways = { speak, attempts: tried, last: tried.at(-1)?.given, record, forget, scenes,
      more: seed === null && variants.length > 1 ? [fresh] : [] };
    shown = (exercise.kind === "predict" ? prediction : practice)(exercise, ways);
    body.replaceChildren(element("div", { className: "question" }, ...paragraphs(exercise.question)), ...shown.nodes);
    told();
  }
  return { root, start(again) {
    k = again ? seed ?? 0 : k;
    exercise = variants[k % variants.length];
    show();
  }, destroy: () => shown.destroy() };
}

/** Hands a text to the reader as a file. */
function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** How much is solved, with the two things that can be done to the record of it. */
function scoreOf(exercises, progress, restart) {
  const counted = exercises.filter(({ variants }) => variants[0].kind !== "predict");
  const guesses = counted.length < exercises.length ? "; guesses are not counted" : "";
  const count = element("span", { className: "count" });
  const file = act("Save my answers as a file", () =>
    download("tokens-in-flight-answers.json", JSON.stringify({ version: 1, exercises: progress.all() }, null, 2)));
  let sure = false;
  const ask = (is) => { sure = is; clear.textContent = is ? "Clear all of this book? Press again" : "Clear my answers"; };
  const clear = act("", () => {
    if (!sure) return ask(true);
    ask(false);
    progress.clear();
    restart();
  });
  clear.addEventListener("blur", () => ask(false));
  ask(false);
  const node = element("div", { className: "score" }, count, file, clear,
    element("p", { className: "soft", textContent: "Your answers stay in this browser." }));
  return { node, update() {
    const done = counted.filter(({ id }) => progress.of(id).solved).length;
    count.textContent = `${done} of ${counted.length} solved${guesses}`;
  }, any: counted.length > 0 };
}

/** Shows exercises in `el`. `further(id, k, onProgress)` makes a variant that the page does not carry. */
export function selfCheck(el, exercises, { scenes = [], counted = true, further, search = "", storage = null }) {
  const progress = progressIn(storage);
  const score = scoreOf(exercises, progress, () => cards.forEach((one) => one.start(true)));
  const cards = exercises.map((exercise) => card(exercise, {
    scenes, progress, seed: variantOf(search), further, changed: score.update,
  }));
  const root = element("div", { className: "tif tif-check" }, ...cards.map((one) => one.root), ...(counted && score.any ? [score.node] : []));
  keepKeys(root);
  el.append(root);
  cards.forEach((one) => one.start(false));
  const target = exercises.find(({ id }) => location.hash === `#exercise-${id}`);
  if (target) document.getElementById(`exercise-${target.id}`).scrollIntoView();
  return { destroy: () => cards.forEach((one) => one.destroy()) };
}

function render({ model, el }) {
  const exercises = model.get("exercises");
  const further = (id, number, onProgress) => call(model, "lab.questions:more", { id, number }, onProgress);
  const check = selfCheck(el, exercises, {
    scenes: model.get("scenes"), counted: model.get("score") !== false, further, search: location.search, storage: browserStorage(),
  });
  return () => check.destroy();
}

export default { render };
