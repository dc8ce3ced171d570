// Calls to the service. What comes back is data: it reaches the page as text and never as markup.

const KEY = "runoff-key";

export class Refused extends Error {
  constructor(status, body) {
    super(body?.error?.message ?? `the service answered with status ${status}`);
    this.status = status;
    this.field = body?.error?.param ?? null;
  }
}

export function unlock(key) {
  sessionStorage.setItem(KEY, key);
}

export async function call(method, path, body, signal) {
  const headers = {};
  const key = sessionStorage.getItem(KEY);
  if (key) headers.authorization = `Bearer ${key}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw new Refused(response.status, answer);
  return answer;
}

export function make(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  if (options.class) node.className = options.class;
  if (options.text !== undefined) node.textContent = options.text;
  for (const [name, value] of Object.entries(options.set ?? {})) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function count(number, one, many) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many ?? `${one}s`}`;
}
