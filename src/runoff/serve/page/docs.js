// The API as a page, from /openapi.json: fields with their bounds, an example of each body, and a button to send it.

import { call, make, Refused, unlock } from "./api.js";

const place = document.getElementById("operations");

async function start() {
  const description = await call("GET", "/openapi.json");
  document.getElementById("facts").textContent = `version ${description.info.version}`;
  const groups = new Map();
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags?.[0] ?? "other";
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(entry(description, path, method, operation));
    }
  }
  for (const [tag, entries] of groups) place.append(make("h2", { text: tag }), ...entries);
}

function entry(description, path, method, operation) {
  const [first, ...rest] = (operation.description ?? "").split("\n\n");
  const head = make("summary", {}, make("span", { class: `method ${method}`, text: method.toUpperCase() }), make("code", { text: path }), make("span", { text: first }));
  const inside = make("div", { class: "inside" }, ...rest.map((text) => make("p", { text })));
  const schema = resolved(description, operation.requestBody?.content?.["application/json"]?.schema);
  if (schema) inside.append(make("h3", { text: "Body" }), fields(description, schema));
  const inputs = (operation.parameters ?? []).map((parameter) => parameterInput(parameter, inside));
  const example = schema?.examples?.[0];
  inside.append(sender(path, method, example, inputs));
  const answer = resolved(description, operation.responses?.["200"]?.content?.["application/json"]?.schema ?? operation.responses?.["202"]?.content?.["application/json"]?.schema);
  if (answer?.properties) inside.append(make("h3", { text: "Answer" }), fields(description, answer));
  return make("details", {}, head, inside);
}

function parameterInput(parameter, inside) {
  const input = make("input", { set: { "aria-label": parameter.name, placeholder: parameter.name } });
  inside.append(make("h3", { text: `In the path: ${parameter.name}` }), make("p", { text: parameter.description ?? "" }), input);
  return [parameter.name, input];
}

function sender(path, method, example, inputs) {
  const text = example === undefined ? null : make("textarea", { set: { "aria-label": "Body", spellcheck: "false" } });
  if (text) text.value = JSON.stringify(example, null, 2);
  const button = make("button", { text: "Send", set: { type: "button" } });
  const took = make("span");
  const answer = make("pre", { set: { hidden: "", tabindex: "0" } });
  button.addEventListener("click", async () => {
    const began = performance.now();
    let target = path;
    for (const [name, input] of inputs) target = target.replace(`{${name}}`, encodeURIComponent(input.value));
    answer.hidden = false;
    try {
      const found = await (target === "/metrics" ? fetch(target).then((response) => response.text()) : call(method.toUpperCase(), target, text ? JSON.parse(text.value) : undefined));
      answer.textContent = typeof found === "string" ? found : JSON.stringify(found, null, 2);
    } catch (error) {
      answer.textContent = error instanceof Refused ? `${error.status}: ${error.message}` : String(error.message);
    }
    took.textContent = `${(performance.now() - began).toFixed(0)} ms`;
  });
  const parts = text ? [make("h3", { text: "Try it" }), text] : [];
  return make("div", {}, ...parts, make("div", { class: "send" }, button, took), answer);
}

function fields(description, schema) {
  const body = make("tbody");
  const needs = (name) => (schema.required?.includes(name) ? 0 : 1);
  const properties = Object.entries(schema.properties ?? {}).sort(([a], [b]) => needs(a) - needs(b));
  for (const [name, property] of properties) {
    const whole = resolved(description, property);
    const needed = schema.required?.includes(name) && !("default" in property);
    const label = make("code", { class: needed ? "needed" : "", text: name });
    const notes = [(property.description ?? whole.description ?? "").replace(/\.$/, ""), bounds(whole), "default" in property && property.default !== null ? `default ${JSON.stringify(property.default)}` : ""];
    body.append(make("tr", {}, make("td", {}, label), make("td", { text: kind(description, property) }), make("td", { text: notes.filter(Boolean).join("; ") })));
  }
  const head = make("tr", {}, ...["field", "type", ""].map((text) => make("th", { text })));
  return make("div", { class: "wide" }, make("table", {}, make("thead", {}, head), body));
}

function kind(description, property) {
  const options = property.anyOf ?? property.oneOf;
  if (options) return options.map((option) => kind(description, option)).filter((name) => name !== "null").join(" or ");
  const whole = resolved(description, property);
  if (whole.enum) return whole.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (whole.const !== undefined) return JSON.stringify(whole.const);
  if (whole.type === "array") return `list of ${kind(description, whole.items ?? whole.prefixItems?.[0] ?? {})}`;
  return whole.title && whole.properties ? whole.title : whole.type ?? "any";
}

function bounds(property) {
  const parts = [];
  for (const one of [property, ...(property.anyOf ?? [])]) {
    if (one.minimum !== undefined || one.maximum !== undefined) parts.push(`${one.minimum ?? ""} to ${one.maximum ?? "any"}`);
    if (one.maxLength !== undefined) parts.push(`at most ${one.maxLength.toLocaleString("en")} characters`);
    if (one.maxItems !== undefined) parts.push(`at most ${one.maxItems.toLocaleString("en")} items`);
  }
  return parts.join(", ");
}

function resolved(description, schema) {
  if (!schema?.$ref) return schema ?? null;
  return description.components.schemas[schema.$ref.split("/").pop()];
}

document.getElementById("unlock").addEventListener("submit", (event) => {
  event.preventDefault();
  unlock(document.getElementById("key").value);
});

start();
