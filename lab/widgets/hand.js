// A hand to be played: before each step the reader says who sits. Every state stands in the hand.

import { button, columnHead, element, reach } from "./dom.js";
import { lanes } from "./lanes.js";
import { tagOf } from "./tag.js";
import { coloursOf, player } from "./player.js";

const steps = (number, more = "") => `${number}${more} step${number === 1 ? "" : "s"}`;
const seat = (number) => `seat ${number + 1}`;

/** Steps that each request still needs, once `played` (who sat where, step by step) is played. */
export function left(hand, played) {
  const start = hand.requests.map((request) => request.steps).join(" ");
  const named = (seated) => hand.requests.map(({ id }) => id).filter((id) => seated.includes(id)).join(" ");
  const state = played.reduce((at, seated) => hand.states[at][named(seated)], start);
  return Object.fromEntries(state.split(" ").map((number, i) => [hand.requests[i].id, Number(number)]));
}

/** Who is seated for the next step if `who` is asked to sit or get up; null if no seat is free. */
export function asked(seated, who) {
  if (seated.includes(who)) return seated.map((other) => (other === who ? null : other));
  const free = seated.indexOf(null);
  return free < 0 ? null : seated.map((other, number) => (number === free ? who : other));
}

/** The marks of a hand, of the form that a timeline gives them. */
export function marksOf(hand, played) {
  return played.flatMap((seated, at) => {
    const before = left(hand, played.slice(0, at));
    const span = { start: at, stop: at + 1 };
    const waiting = hand.requests.map(({ id }) => id).filter((id) => before[id] && !seated.includes(id));
    const queue = { id: `queue.${at}`, role: "queued", lane: "queue", ...span, label: waiting.join(" "), who: null };
    const seats = seated.map((who, number) => who === null
      ? { id: `idle.${at}.${number}`, role: "idle", lane: seat(number), ...span, label: "", who }
      : { id: `${who}.${at}`, role: isNew(hand, before, who) ? "prefill" : "decode", lane: seat(number), ...span, label: who, who });
    return waiting.length ? [...seats, queue] : seats;
  });
}

const isNew = (hand, before, who) => hand.requests.some(({ id, steps: all }) => id === who && before[id] === all);

/** What marks add up to: when each request ends, how many steps there are, seat-steps that are idle. */
export function account(marks) {
  const ends = {};
  let last = 0, idle = 0;
  for (const { role, who, start, stop } of marks) {
    if (role === "queued") continue;
    last = Math.max(last, stop);
    if (role === "idle") idle += stop - start;
    else ends[who] = Math.max(ends[who] ?? 0, stop);
  }
  return { ends, steps: last, idle };
}

/** Who was asked to get up before it was done, in the last step of `played`. */
export function preempted(hand, played) {
  const [before, now] = [played.at(-2) ?? [], played.at(-1) ?? []];
  const open = left(hand, played.slice(0, -1));
  return before.filter((who) => who !== null && open[who] && !now.includes(who));
}

/** What the last step of `played` did, in the words of a timeline. */
export function told(hand, played) {
  const before = left(hand, played.slice(0, -1)), after = left(hand, played);
  const names = hand.requests.map(({ id }) => id), seated = played.at(-1);
  const all = Object.fromEntries(hand.requests.map(({ id, steps: number }) => [id, number]));
  const deeds = new Map();
  for (const who of seated.filter((id) => id !== null)) {
    const deed = isNew(hand, before, who) ? "prefill done" : "decode";
    deeds.set(deed, [...(deeds.get(deed) ?? []), `${who} token ${all[who] - after[who]} of ${all[who]}`]);
  }
  const idle = seated.flatMap((who, number) => (who === null ? [seat(number)] : []));
  const waiting = names.filter((id) => before[id] && !seated.includes(id));
  return [...[...deeds].map(([deed, who]) => `${deed}: ${who.join(", ")}`),
    ...names.filter((id) => before[id] && !after[id]).map((id) => `${id} finished`),
    ...preempted(hand, played).map((id) => `${id} was preempted and keeps what it has`),
    ...(idle.length ? [`idle: ${idle.join(", ")}`] : []),
    ...(waiting.length ? [`waiting: ${waiting.join(", ")}`] : [])].join("; ");
}

/** The scene of a hand, for the player and for the board. */
export function sceneOf(hand, played) {
  const marks = marksOf(hand, played);
  const { ends, idle } = account(marks);
  const ended = hand.requests.filter(({ id }) => ends[id]).map(({ id }) => `${id} step ${ends[id]}`);
  return { ...hand.rules[0].scene, title: "Your hand", tag: "derived",
    conditions: `${hand.requests.length} requests, your choices, ${hand.seats} seats, equal steps`,
    finding: `Your hand: ends ${ended.join(", ")}; idle seat-steps: ${idle}`,
    lanes: [...Array.from({ length: hand.seats }, (_, number) => seat(number)), "queue"],
    marks,
    frames: played.map((_, at) => ({ at, label: `${at + 1}`, caption: told(hand, played.slice(0, at + 1)) })) };
}

/** How much sooner each request ended in the reader's hand than under a rule, in words. */
export function beside(name, mine, rule) {
  const moved = Object.keys(rule.ends).map((who) => [who, rule.ends[who] - mine.ends[who]]).filter(([, by]) => by);
  const words = moved.map(([who, by]) => `${who} ended ${steps(Math.abs(by))} ${by > 0 ? "sooner" : "later"}`);
  const saved = rule.idle - mine.idle;
  const idle = saved ? `${Math.abs(saved)} ${saved > 0 ? "fewer" : "more"} seat-step${Math.abs(saved) === 1 ? "" : "s"} stood idle` : "as many seat-steps stood idle";
  return `Beside ${name.toLowerCase()}: ${words.join(", ") || "everybody ended at the same step"}; ${idle}.`;
}

/** Ends and idle seat-steps of the reader's hand and of the rules, one row each. */
function table(hand, mine) {
  const names = hand.requests.map(({ id }) => id);
  const heads = ["", ...names, "steps", "idle"];
  const rows = [{ name: "Your hand", ...mine }, ...hand.rules].map((one) => element("tr", {},
    element("th", { scope: "row", textContent: one.name }),
    ...[...names.map((id) => one.ends[id]), one.steps, one.idle].map((text) => element("td", { textContent: text }))));
  const about = element("caption", { textContent: "After which step each request ended, steps in all, and idle seat-steps" });
  return element("table", {}, about, element("thead", {}, element("tr", {},
    ...heads.map(columnHead))), element("tbody", {}, ...rows));
}

/** Puts the game into an element; returns `destroy()`. `onward` is the next question and its address. */
export function game(el, hand, onward = []) {
  const names = hand.requests.map(({ id }) => id);
  const whole = hand.requests.reduce((sum, request) => sum + request.steps, 0);
  const colour = coloursOf([{ marks: hand.requests.map(({ id }) => ({ who: id })) }]);
  let played = [], seated = Array(hand.seats).fill(null), after = null;

  const stage = element("div", { className: "stage" });
  const board = element("div", { className: "tif-player board" }, stage);
  const caption = element("p", { className: "caption" });
  caption.setAttribute("role", "status");
  const verdict = element("div", { className: "verdict" });
  const asks = names.map((who) => Object.assign(button("", "", () => ask(who)), { className: colour(who) }));
  const step = Object.assign(button("Step ›", "Play this step", play), { className: "primary" });
  const undo = button("↶ Undo", "Undo the last step", takeBack);
  const again = button("Start again", "Start again", () => begin("Start again: choose who sits, then press Step."));
  const asking = element("div", { className: "asking" },
    element("p", { textContent: "Who sits in the next step?" }), element("div", { className: "controls" }, ...asks));
  asking.setAttribute("role", "group");
  asking.setAttribute("aria-label", "Who sits in the next step?");
  const link = element("a", { className: "onward" });
  const root = element("div", { className: "tif tif-hand", tabIndex: 0 },
    element("p", { className: "title", textContent: "You are the scheduler" }),
    element("p", { className: "conditions" }, `${hand.conditions} `, tagOf("given")),
    board, caption, verdict,
    asking,
    element("div", { className: "controls" }, step, undo, again, ...(onward.length ? [link] : [])),
    element("p", { className: "keys", textContent: `Keys: ${names.join(", ")} to sit or get up, → to play the step, ← to undo.` }));
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Game: you are the scheduler");
  const drawn = lanes(planned(), colour);
  stage.append(drawn.node);

  const open = () => Object.values(left(hand, played)).some(Boolean);

  /** The board: what was played, who is seated for the next step, and room for the longest hand. */
  function planned() {
    const scene = sceneOf(hand, played);
    const at = played.length;
    const next = seated.flatMap((id, number) => id === null ? []
      : [{ id: `${id}.${at}`, role: "planned", lane: seat(number), start: at, stop: at + 1, label: id, who: id }]);
    const frames = Array.from({ length: whole }, (_, number) => ({ at: number, label: `${number + 1}`, caption: "" }));
    return { ...scene, title: "The board.", marks: [...scene.marks, ...next], frames };
  }

  function ask(id) {
    const rest = left(hand, played)[id];
    if (!rest) return say(`${id} is done.`);
    const others = asked(seated, id);
    if (!others) return say(`Every seat is taken: ${seated.join(" and ")} sit. Ask one to get up first.`);
    const sits = others.indexOf(id);
    seated = others;
    update(sits < 0 ? `${id} gets up.` : `${id} takes ${seat(sits)}.`);
  }

  function play() {
    if (!open()) return;
    if (seated.every((id) => id === null)) return say("Nobody sits. Seat at least one request first.");
    played = [...played, seated];
    const rest = left(hand, played);
    seated = seated.map((id) => (id !== null && rest[id] ? id : null));
    update(`Step ${played.length}. ${told(hand, played)}.`);
  }

  function takeBack() {
    if (!played.length) return say("There is no step to undo.");
    seated = played.at(-1);
    played = played.slice(0, -1);
    update(`Step ${played.length + 1} is undone.`);
  }

  function begin(words) {
    played = [];
    seated = Array(hand.seats).fill(null);
    update(words);
  }

  const say = (words) => { caption.textContent = words; };

  function update(words) {
    const rest = left(hand, played), ended = !open();
    asks.forEach((node, i) => {
      const id = names[i];
      node.textContent = !rest[id] ? `${id} is done` : `${id} needs ${steps(rest[id], rest[id] < hand.requests[i].steps ? " more" : "")}`;
      node.title = node.textContent;
      node.setAttribute("aria-label", `${node.textContent}${seated.includes(id) ? `, sits in ${seat(seated.indexOf(id))}` : ""}`);
      node.setAttribute("aria-pressed", seated.includes(id));
      node.setAttribute("aria-disabled", !rest[id]);
    });
    step.setAttribute("aria-disabled", ended || seated.every((id) => id === null));
    undo.setAttribute("aria-disabled", !played.length);
    [link.textContent, link.href] = [`${ended ? "Next" : "Skip the game"}: ${onward[0]}`, onward[1]];
    const others = hand.rules.map((rule) => rule.name.toLowerCase()).join(" and ");
    say(ended ? `${words} All are done. Below, ${others} play the same hand.` : words);
    compare(ended);
    fit();
  }

  /** The rules' play beside the reader's, once all are done; nothing of it before. */
  function compare(ended) {
    after?.destroy();
    after = null;
    if (ended && asking.contains(document.activeElement)) root.focus();
    board.hidden = asking.hidden = ended;
    root.classList.toggle("ended", ended);
    verdict.replaceChildren();
    if (!ended) return;
    const mine = account(marksOf(hand, played));
    const lines = [...hand.rules.map((rule) => beside(rule.name, mine, rule)),
      `No way of playing needs fewer than ${steps(hand.fewest)}; yours took ${mine.steps}.`];
    if (played.some((_, at) => preempted(hand, played.slice(0, at + 1)).length))
      lines.push("You preempted somebody. Here that costs nothing; a real engine keeps the memory or computes it again.");
    const accounts = element("div", { className: "accounts" }, table(hand, mine));
    verdict.append(...lines.map((textContent) => element("p", { textContent })), accounts);
    reach(accounts, "Your hand beside the rules");
    after = player(verdict, [sceneOf(hand, played), ...hand.rules.map((rule) => rule.scene)], { step: whole });
  }

  function fit() {
    if (board.hidden) return;
    drawn.replace(planned());
    drawn.fit(stage.clientWidth || 600, whole);
    const x = drawn.show(played.length - 1, played.length);
    if (x > stage.scrollLeft + stage.clientWidth - 120 || x < stage.scrollLeft) stage.scrollLeft = x - 80;
    reach(stage, "The board");
  }

  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea, .scrolls")) return;
    const id = names.find((name) => name.toLowerCase() === event.key.toLowerCase());
    const act = id !== undefined ? () => ask(id) : { ArrowRight: play, ArrowLeft: takeBack }[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  });
  el.append(root);
  begin("Choose who sits, then press Step. Nothing moves by itself.");
  const watcher = new ResizeObserver(fit);
  watcher.observe(root);
  return { destroy() { watcher.disconnect(); after?.destroy(); } };
}

function render({ model, el }) {
  return game(el, model.get("hand"), model.get("onward")).destroy;
}

export default { render };
