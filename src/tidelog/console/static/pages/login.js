// Logging in with a user of the broker.
import { html, useEffect, useRef, useState } from "../lib/preact.js";
import { call } from "../lib/api.js";
import { Field, Notice } from "../lib/ui.js";

export function Login({ done }) {
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const form = useRef(null);
  useEffect(() => {
    document.title = "Log in · tidelog";
    form.current.querySelector("input").focus();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await call("POST", "/session", { user, password });
      done();
    } catch (problem) {
      setPassword("");
      setError(problem.status === 401 ? "The broker refused this user or password." : problem.message);
    }
    setBusy(false);
  };
  return html`<main class="alone">
    <form class="panel login" ref=${form} onSubmit=${submit} aria-labelledby="login-title">
      <img src="icon.svg" alt="" width="40" height="40" />
      <h1 id="login-title">Log in</h1>
      <p class="muted">Use a user of the broker. You will see and do here what it lets you.</p>
      <${Field} label="User">${(field) => html`<input ...${field} name="user" autocomplete="username" required value=${user}
        onInput=${(event) => setUser(event.target.value)} />`}<//>
      <${Field} label="Password">${(field) => html`<input ...${field} name="password" type="password" autocomplete="current-password"
        required value=${password} onInput=${(event) => setPassword(event.target.value)} />`}<//>
      ${error && html`<${Notice} kind="bad" text=${error} />`}
      <button class="primary" disabled=${busy}>${busy ? "Logging in …" : "Log in"}</button>
    </form>
  </main>`;
}
