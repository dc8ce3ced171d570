// Both rounds side by side: two lists in the order of each round, and a line for every candidate.

import { make } from "./api.js";

const SVG = "http://www.w3.org/2000/svg";
const LINE_WIDTH = 100;

const chart = document.querySelector(".chart");
const first = document.getElementById("first");
const second = document.getElementById("second");
const lines = document.getElementById("lines");

let chosen = null;

export function draw(hits, used, choose) {
  const byFirst = [...hits].sort((a, b) => a.first_stage.rank - b.first_stage.rank);
  const places = new Map(byFirst.map((hit, place) => [hit.chunk_id, place]));
  first.replaceChildren(...byFirst.map((hit) => row(hit, hit.first_stage.rank, hit.first_stage.similarity, nominated(hit), used)));
  second.replaceChildren(...hits.map((hit) => row(hit, hit.rank, hit.score, decided(hit), used)));
  drawLines(hits, places);
  chosen = hits[0] ? String(hits[0].chunk_id) : null;
  show(chosen);
  chart.classList.remove("chosen");
  choose(hits[0], false);
  for (const list of [first, second]) {
    list.onclick = (event) => pick(event.target.closest(".hit"), hits, choose);
    list.onkeydown = (event) => step(event, list);
    list.onpointerover = (event) => show(event.target.closest(".hit")?.dataset.chunk ?? chosen);
    list.onpointerleave = () => {
      show(chosen);
      chart.classList.remove("chosen");
    };
  }
}

function pick(button, hits, choose) {
  if (!button) return;
  chosen = button.dataset.chunk;
  show(chosen);
  choose(hits.find((hit) => String(hit.chunk_id) === chosen), true);
}

function step(event, list) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const rows = [...list.querySelectorAll(".hit")];
  const place = rows.indexOf(document.activeElement);
  if (by === undefined && !(event.key === "ArrowLeft" || event.key === "ArrowRight")) return;
  event.preventDefault();
  if (by !== undefined) {
    const next = rows[Math.max(0, Math.min(rows.length - 1, place + by))];
    next.focus();
    next.click();
  } else {
    const other = (list === first ? second : first).querySelector(`[data-chunk="${CSS.escape(rows[place]?.dataset.chunk ?? "")}"]`);
    other?.focus();
  }
}

function show(chunk) {
  chart.classList.toggle("chosen", chunk !== null);
  for (const node of chart.querySelectorAll("[data-chunk]")) node.classList.toggle("on", node.dataset.chunk === chunk);
}

function nominated(hit) {
  const { dense, lexical } = hit.first_stage;
  return make("span", { class: "score" }, `${dense?.rank ?? "–"} · ${lexical?.rank ?? "–"}`);
}

function decided(hit) {
  const by = hit.first_stage.rank - hit.rank;
  const moved = make("span", { class: `moved ${direction(by)}`, text: by > 0 ? `↑ ${by}` : by < 0 ? `↓ ${-by}` : "=" });
  return make("span", { class: "score" }, hit.score.toFixed(3), moved);
}

function row(hit, rank, share, figure, used) {
  const name = hit.title || "(no title)";
  const text = hit.kind === "headline" ? "headline" : hit.text.replace(/\s+/g, " ").slice(0, 200);
  const words = make("span", { class: "words" }, make("span", { class: "name", text: name }), make("span", { class: "text", text }));
  const bar = make("span", { class: "share" });
  bar.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  const button = make(
    "button",
    { class: used.has(hit.chunk_id) ? "hit used" : "hit", set: { type: "button", "data-chunk": hit.chunk_id } },
    make("span", { class: "rank", text: rank }), words, figure, bar,
  );
  button.setAttribute("aria-label", `${rank}. ${name}, ${figure.textContent}`);
  return make("li", {}, button);
}

function direction(by) {
  return by > 0 ? "up" : by < 0 ? "down" : "same";
}

function drawLines(hits, places) {
  const count = hits.length;
  lines.setAttribute("viewBox", `0 0 ${LINE_WIDTH} ${count * 10}`);
  lines.replaceChildren(...hits.map((hit, place) => {
    const from = places.get(hit.chunk_id) * 10 + 4.5;
    const to = place * 10 + 4.5;
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", `M0 ${from}C${LINE_WIDTH * 0.5} ${from} ${LINE_WIDTH * 0.5} ${to} ${LINE_WIDTH} ${to}`);
    path.setAttribute("class", direction(hit.first_stage.rank - hit.rank));
    path.dataset.chunk = hit.chunk_id;
    return path;
  }));
}
