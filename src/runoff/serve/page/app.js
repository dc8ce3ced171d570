// The page: asks the service for a prompt, which brings both rounds of its search, and shows all of it.

import { call, count, make, Refused, unlock } from "./api.js";
import { draw } from "./chart.js";

const $ = (id) => document.getElementById(id);
const form = $("ask");
const state = { running: null, trial: null };

async function start() {
  await describe();
  const asked = new URLSearchParams(location.hash.slice(1)).get("q");
  if (asked) {
    $("question").value = asked;
    search();
  } else {
    $("question").focus();
  }
}

async function describe() {
  try {
    const facts = await call("GET", "/info");
    const chosen = $("backend").value;
    $("backend").replaceChildren(...facts.backends.map((name) => make("option", { text: name === "auto" ? `auto (${facts.backend})` : name, set: { value: name } })));
    $("backend").value = chosen || "auto";
    const { store } = facts;
    $("facts").textContent = store.state === "open"
      ? `${count(store.documents, "document")} · ${count(store.chunks, "chunk")} · generation ${store.generation} · ${facts.backend} on ${count(facts.threads, "core")}`
      : `no documents yet · ${facts.backend} on ${count(facts.threads, "core")}`;
    $("unlock").hidden = true;
  } catch (error) {
    complain(error);
  }
}

function body() {
  const wanted = { question: $("question").value, max_tokens: Number($("tokens").value), candidates: Number($("candidates").value) };
  if ($("backend").value !== "auto" && $("backend").value) wanted.backend = $("backend").value;
  wanted.mode = form.elements.mode.value;
  wanted.blend = Number($("blend").value);
  wanted.effort = $("effort").value;
  if ($("where").value.trim()) wanted.where = $("where").value;
  if (state.trial) wanted.trial = state.trial;
  return wanted;
}

async function search() {
  const wanted = body();
  if (!wanted.question.trim()) return;
  state.running?.abort();
  const running = (state.running = new AbortController());
  history.replaceState(null, "", `#${new URLSearchParams({ q: wanted.question })}`);
  document.body.classList.add("busy");
  $("problem").hidden = true;
  const began = performance.now();
  try {
    const answer = await call("POST", "/prompt", wanted, running.signal);
    render(answer, performance.now() - began);
  } catch (error) {
    if (error.name !== "AbortError") complain(error);
  } finally {
    if (state.running === running) {
      document.body.classList.remove("busy");
      state.running = null;
    }
  }
}

function render({ prompt, search: found, prompt_ms: promptMs }, total) {
  const { hits } = found;
  $("welcome").hidden = true;
  $("result").hidden = hits.length === 0;
  const moved = hits.filter((hit) => hit.rank !== hit.first_stage.rank).length;
  $("status").textContent = hits.length
    ? `${count(hits.length, "candidate")}, ${moved} of them moved by the runoff, in ${total.toFixed(0)} ms${found.cached ? ", as kept from an earlier search" : ""}`
    : "Nothing matches: there are no documents to search.";
  if (!hits.length) return;
  const used = new Set(prompt.used.map((place) => hits[place].chunk_id));
  draw(hits, used, showPassage);
  renderTimes(found.timings_ms, promptMs, total);
  renderPrompt(prompt);
}

function showPassage(hit, asked) {
  const rows = [["rank", `${hit.first_stage.rank} → ${hit.rank}`]];
  rows.push(["relevance", hit.score.toFixed(4)]);
  if (hit.logit !== null) rows.push(["logit", hit.logit.toFixed(3)]);
  if (hit.exit_layer !== null) rows.push(["predicted after", `layer ${hit.exit_layer}`]);
  if (hit.blended !== null) rows.push(["blended", hit.blended.toFixed(3)]);
  rows.push(["similarity", hit.first_stage.similarity.toFixed(4)]);
  for (const [name, label] of [["dense", "by vectors"], ["lexical", "by words"]]) {
    const place = hit.first_stage[name];
    rows.push([label, place === null ? "not found" : `${ordinal(place.rank)} (${place.score.toFixed(3)})`]);
  }
  if (hit.published) rows.push(["published", hit.published.slice(0, 10)]);
  if (hit.source) rows.push(["source", hit.source]);
  if (hit.truncated) rows.push(["read", "only its beginning"]);
  const list = make("dl");
  for (const [name, value] of rows) list.append(make("dt", { text: name }), make("dd", { text: value }));
  const parts = [make("h3", { text: hit.title || "(no title)" })];
  if (/^https?:\/\//i.test(hit.url ?? "")) {
    parts.push(make("a", { text: hit.url, set: { href: hit.url, target: "_blank", rel: "noopener noreferrer" } }));
  }
  $("passage").replaceChildren(...parts, list, make("p", { text: hit.text }));
  if (asked && matchMedia("(max-width: 64rem)").matches) $("passage").scrollIntoView({ block: "nearest" });
}

function ordinal(number) {
  return `no. ${number}`;
}

function renderTimes(timings, promptMs, total) {
  const stages = Object.entries(timings).filter(([name, value]) => name !== "total" && typeof value === "number");
  stages.push(["prompt", promptMs]);
  const inside = stages.reduce((sum, [, value]) => sum + value, 0);
  stages.push(["wait and transport", Math.max(0, total - inside)]);
  $("bar").replaceChildren(...stages.map(([, value], place) => {
    const part = make("div", { class: `s${place % 6}` });
    part.style.flexGrow = value;
    return part;
  }));
  $("stages").replaceChildren(...stages.map(([name, value], place) =>
    make("li", {}, make("i", { class: `s${place % 6}` }), `${name} `, make("b", { text: `${value.toFixed(1)} ms` }))));
}

function renderPrompt(prompt) {
  $("prompt").textContent = prompt.text;
  const parts = [`${prompt.tokens.toLocaleString("en")} of ${count(prompt.max_tokens, "token")}`, count(prompt.used.length, "passage")];
  if (prompt.omitted) parts.push(`${prompt.omitted} left out`);
  if (prompt.cut) parts.push("the first one cut");
  $("budget").textContent = parts.join(" · ");
  $("spent").style.width = `${(100 * prompt.tokens) / prompt.max_tokens}%`;
}

function complain(error) {
  if (error instanceof Refused && error.status === 401) {
    $("unlock").hidden = false;
    $("key").focus();
    return;
  }
  $("problem").textContent = error instanceof Refused ? error.message : "The service cannot be reached.";
  $("problem").hidden = false;
}

async function tryFiles(files) {
  if (!files.length) return;
  $("problem").hidden = true;
  try {
    const given = await Promise.all([...files].map(async (file) => ({ name: file.name, data: await base64(file) })));
    let job = await call("POST", "/trials", { files: given });
    $("progress").hidden = false;
    while (!job.finished) {
      await new Promise((resolve) => setTimeout(resolve, 250));
      job = await call("GET", `/jobs/${job.id}`);
      if (job.total) $("progress").value = job.done / job.total;
      else $("progress").removeAttribute("value");
    }
    settle(job, files.length);
  } catch (error) {
    complain(error);
  } finally {
    $("progress").hidden = true;
    $("files").value = "";
  }
}

function settle(job, files) {
  const failed = job.report.filter((row) => row.error);
  if (failed.length || job.error) {
    $("problem").textContent = failed.map((row) => row.error).join(" ") || job.error;
    $("problem").hidden = false;
  }
  if (job.state !== "done") return;
  const documents = job.report.reduce((sum, row) => sum + row.added + row.unchanged, 0);
  state.trial = job.trial;
  $("drop").classList.add("active");
  $("leave").hidden = false;
  $("trying").hidden = false;
  $("trying").textContent = `Searching ${count(documents, "document")} from ${count(files, "file")} of yours instead of the store.`;
  search();
  $("question").focus();
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

form.addEventListener("submit", (event) => { event.preventDefault(); search(); });
form.addEventListener("change", (event) => { if (event.target.id !== "question") search(); });
form.addEventListener("input", (event) => {
  const shownBy = form.querySelector(`output[for="${CSS.escape(event.target.id)}"]`);
  if (shownBy) shownBy.textContent = Number(event.target.value).toLocaleString("en");
});
$("unlock").addEventListener("submit", async (event) => {
  event.preventDefault();
  unlock($("key").value);
  await describe();
  search();
});
$("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText($("prompt").textContent);
    $("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren($("prompt"));
    $("copy").textContent = "Selected";
  }
  setTimeout(() => { $("copy").textContent = "Copy"; }, 1500);
});
$("files").addEventListener("change", (event) => tryFiles(event.target.files));
$("leave").addEventListener("click", () => location.reload());
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(input|select|textarea)$/i.test(document.activeElement?.tagName ?? "")) {
    event.preventDefault();
    $("question").select();
  }
});
for (const kind of ["dragenter", "dragover"]) {
  document.addEventListener(kind, (event) => { event.preventDefault(); $("drop").classList.add("over"); });
}
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) $("drop").classList.remove("over"); });
document.addEventListener("drop", (event) => {
  event.preventDefault();
  $("drop").classList.remove("over");
  tryFiles(event.dataTransfer.files);
});

start();
