// Asking the server: paths, JSON, and errors as people read them.

const BASE = "api/v1";

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export function path(...parts) {
  return parts.map((each) => `/${encodeURIComponent(each)}`).join("");
}

export function query(values) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null && each !== "") given.append(name, each);
    }
  }
  const text = given.toString();
  return text ? `?${text}` : "";
}

export const url = (where) => BASE + where;

export async function call(method, where, body, signal) {
  let response;
  try {
    response = await fetch(url(where), {
      method,
      signal,
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The console does not answer. Is it still running?");
  }
  const told = await response.json().catch(() => null);
  if (response.ok) return told;
  const problem = (told && told.error) || { code: "unexpected", message: `HTTP ${response.status}` };
  if (problem.code === "login_required") window.dispatchEvent(new Event("login-required"));
  throw new ApiError(response.status, problem.code, problem.message);
}

export const get = (where, signal) => call("GET", where, undefined, signal);
