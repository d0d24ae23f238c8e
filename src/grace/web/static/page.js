// Makes the form live: moves ask /moved, other settings ask /answer (both by htmx, see the templates).
"use strict";

const form = document.getElementById("question");
const all = selector => [...document.querySelectorAll(selector)];
const ask = what => form.dispatchEvent(new CustomEvent(what));

function inputOf(slider) {
  return document.getElementById(slider.dataset.for);
}

function sliderOf(input) {
  return document.querySelector(`.slide[data-for="${input.id}"]`);
}

// a moved value, by slider, number or choice
form.addEventListener("input", event => {
  const at = event.target;
  if (at.classList.contains("slide")) {
    inputOf(at).value = at.value;
  } else if (at.name.startsWith("now.")) {
    const slider = sliderOf(at);
    if (slider && at.value !== "") slider.value = at.value;
  } else {
    return;
  }
  score();
  ask("moved");
});

// a link that moves the row does so in place
document.addEventListener("click", event => {
  const link = event.target.closest("a[data-move]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const values = JSON.parse(link.dataset.move);
  for (const input of all("[data-own]")) {
    input.value = values[input.id] ?? input.dataset.own;
    const slider = sliderOf(input);
    if (slider) slider.value = input.value;
  }
  arrange();
  score();
  ask("moved");
  document.getElementById("try-head").focus();
});

// everything else is part of the question
document.addEventListener("change", event => {
  const at = event.target;
  if (at.form !== form || !at.name || at.name === "of" || at.name.startsWith("now.")) return;
  if (at.name === "row" || at.name === "language") return form.requestSubmit(); // all of the page changes
  if (at.name === "up" || at.name === "down") {
    const other = { up: "down", down: "up" }[at.name];
    if (at.checked) all(`input[name="${other}"]`).filter(i => i.value === at.value).forEach(i => (i.checked = false));
  }
  ask("asked");
  if (at.name.startsWith("aim")) ask("moved"); // whether the number is as asked for
});

// the features of the answer, and those that were moved or limited, come first
function isLimited(card) {
  return [...card.querySelectorAll(".keep input, .limits input")].some(i => (i.type === "checkbox" ? i.checked : i.value));
}

function isMoved(card) {
  const input = card.querySelector("[data-own]");
  return input.value !== input.dataset.own;
}

function arrange() {
  const data = document.getElementById("changes");
  if (!data) return;
  const would = JSON.parse(data.dataset.would);
  const focused = document.activeElement;
  const cards = all(".card").sort((a, b) => a.dataset.key.slice(1) - b.dataset.key.slice(1));
  const groups = { first: [], others: [] };
  for (const card of cards) {
    const new_ = would[card.dataset.key];
    card.querySelector(".would").textContent = new_ ?? "";
    const up = new_ !== undefined || isMoved(card) || isLimited(card);
    groups[up ? "first" : "others"].push(card);
  }
  for (const [id, members] of Object.entries(groups)) {
    const place = document.getElementById(id);
    const now = [...place.children];
    if (now.length !== members.length || now.some((c, i) => c !== members[i])) place.append(...members);
  }
  document.getElementById("rest-count").textContent = groups.others.length;
  if (focused !== document.activeElement) focused.focus({ preventScroll: true });
}

// the points of moved values, along the profile that came with the answer; null where nothing is known
function numberOf(curve, text) {
  return curve.date ? Date.parse(text.length > 10 ? `${text}Z` : text) / 864e5 : Number(text);
}

function pointsOf(curve, text) {
  if (curve.kind === "categories") return curve.points[curve.values.indexOf(text)] ?? null;
  const value = numberOf(curve, text);
  const { values, points } = curve;
  const last = values.length - 1;
  if (text === "" || !(value >= values[0] && value <= values[last])) return null;
  const at = values.findLastIndex(v => v <= value);
  if (at === last || curve.kind === "steps") return points[at];
  const share = (value - values[at]) / (values[at + 1] - values[at]);
  return points[at] + share * (points[at + 1] - points[at]);
}

function signed(points) {
  const whole = points < 100 ? Math.min(99, Math.round(points)) : Math.round(points);
  return whole > 0 ? `+${whole}` : whole < 0 ? `\u2212${-whole}` : "0";
}

// the weights of the values of a pair's table for what an input holds: of two neighbours, of the same category
function weights(values, text, curve) {
  if (curve.kind === "categories") return values.map(v => Number(v === text));
  const value = numberOf(curve, text);
  const at = Math.max(0, values.findLastIndex(v => v <= value));
  const after = Math.min(at + 1, values.length - 1);
  const wide = values[after] - values[at];
  const share = wide > 0 ? Math.min(1, Math.max(0, (value - values[at]) / wide)) : 0;
  return values.map((_, i) => (i === at ? 1 - share : 0) + (i === after ? share : 0));
}

// what the moved values are worth together: their sum, what pairs bring beyond it, and what so many changes count
function together(data, moved) {
  const keys = Object.keys(moved);
  let sum = keys.reduce((all, key) => all + moved[key].points, 0);
  for (const { inputs, values, points } of data.pairs) {
    if (!inputs.every(key => key in moved)) continue;
    const [a, b] = inputs.map((key, i) => weights(values[i], moved[key].text, data.features[key]));
    a.forEach((x, i) => b.forEach((y, j) => (sum += x * y * points[i][j])));
  }
  return keys.length > 1 ? sum * data.factor * (keys.length / 2) ** data.growth : sum;
}

function score() {
  const place = document.getElementById("points");
  const data = place ? JSON.parse(place.dataset.points) : { features: {} };
  const moved = {};
  for (const card of all(".card")) {
    const key = card.dataset.key;
    const text = card.querySelector("[data-own]").value;
    const points = key in data.features && isMoved(card) ? pointsOf(data.features[key], text) : null;
    const badge = card.querySelector(".points");
    badge.textContent = "";
    if (points === null) continue;
    moved[key] = { points, text };
    const said = signed(points);
    badge.textContent = data.words[/^\D?1$/.test(said) ? "point" : "points"].replace("{n}", said);
    badge.classList.toggle("enough", points >= 100);
  }
  const sum = document.getElementById("total");
  if (!sum) return;
  sum.hidden = Object.keys(moved).length === 0;
  if (sum.hidden) return;
  const total = together(data, moved);
  sum.textContent = data.words.total.replace("{n}", signed(total));
  sum.classList.toggle("enough", total >= 100);
}

// read aloud: a region that was there before the words, as those that come with them are often passed over
let said = document.getElementById("says")?.textContent;
function speak() {
  const words = document.querySelector("#answer .alert, #says");
  if (!words || words.textContent === said) return;
  const spoken = document.getElementById("spoken");
  spoken.lang = words.lang || document.documentElement.lang;
  spoken.textContent = said = words.textContent;
}

document.body.addEventListener("htmx:afterSettle", event => {
  if (event.target.closest("#moved")) return; // nothing moves under a hand on a slider
  score();
  if (event.target.closest("#alone, #reasons, #because")) return;
  arrange();
  speak();
});

document.getElementById("find")?.addEventListener("input", event => {
  const wanted = event.target.value.toLowerCase();
  let shown = 0;
  for (const card of document.querySelectorAll("#others .card")) {
    card.hidden = !card.dataset.words.toLowerCase().includes(wanted);
    shown += !card.hidden;
  }
  const found = document.getElementById("found");
  found.textContent = found.dataset.words.replace("{n}", shown);
});
document.getElementById("find")?.addEventListener("keydown", event => {
  if (event.key === "Enter") event.preventDefault();
});

// the title follows the answer; a server that is gone is said
document.body.addEventListener("htmx:afterSwap", event => {
  document.getElementById("lost").hidden = true;
  const head = document.querySelector("#answer h1");
  if (event.detail.target.id === "answer" && head) document.title = head.textContent;
});
document.body.addEventListener("htmx:sendError", () => (document.getElementById("lost").hidden = false));
