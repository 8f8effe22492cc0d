// The page of all exercises: one button opens or closes every answer, and says how many are open.

/** What the button does next, and how many answers are open, in words. */
export function words(open, all) {
  return { act: open < all ? "Open all answers" : "Close all answers", state: `${open} of ${all} answers are open` };
}

function control(answers) {
  const button = Object.assign(document.createElement("button"), { type: "button" });
  const state = document.createElement("span");
  state.setAttribute("role", "status");
  const count = () => answers.filter((one) => one.open).length;
  const tell = () => {
    const told = words(count(), answers.length);
    button.textContent = told.act;
    state.textContent = told.state;
  };
  button.addEventListener("click", () => {
    const open = count() < answers.length;
    for (const one of answers) one.open = open;
  });
  for (const one of answers) one.addEventListener("toggle", tell);
  tell();
  const line = Object.assign(document.createElement("p"), { className: "bank-control" });
  line.append(button, " ", state);
  return line;
}

if (typeof document !== "undefined") {
  const answers = [...document.querySelectorAll("details.bank-answer")];
  document.querySelector("article section section")?.before(control(answers));
}
