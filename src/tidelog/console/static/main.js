// The frame around the pages: navigation, theme, login, and which page is shown.
import { html, render, useEffect, useRef, useState } from "./lib/preact.js";
import { call, get } from "./lib/api.js";
import { link, Session, useLoad, usePlace, useTheme } from "./lib/hooks.js";
import { Empty, Notice, Page, say, Sayings } from "./lib/ui.js";
import { Access } from "./pages/access.js";
import { Audit } from "./pages/audit.js";
import { Brokers } from "./pages/brokers.js";
import { Group } from "./pages/group.js";
import { Groups } from "./pages/groups.js";
import { Login } from "./pages/login.js";
import { Overview } from "./pages/overview.js";
import { Quotas } from "./pages/quotas.js";
import { Schemas } from "./pages/schemas.js";
import { Topic } from "./pages/topic.js";
import { Topics } from "./pages/topics.js";

const PAGES = [
  ["overview", "Overview", "M3 12l4-6 4 9 3-5 3 2"],
  ["topics", "Topics", "M3 5h14M3 10h14M3 15h9"],
  ["groups", "Groups", "M7 9a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2 17c0-3 2-5 5-5s5 2 5 5M13 9a2.5 2.5 0 1 0 0-5M14 12c2.500 0 4 2 4 5"],
  ["schemas", "Schemas", "M7 3C4 3 6 9 3 10c3 1 1 7 4 7M13 3c3 0 1 6 4 7-3 1-1 7-4 7"],
  ["audit", "Audit", "M3 3h6v6H3zM11 3h6v6h-6zM3 11h6v6H3zM12 14l2 2 4-4"],
  ["quotas", "Quotas", "M3 15a7 7 0 1 1 14 0M10 15l3-5"],
  ["access", "Access", "M5 9h10v8H5zM7 9V6a3 3 0 0 1 6 0v3"],
  ["brokers", "Brokers", "M3 4h14v5H3zM3 11h14v5H3zM6 6.500h.01M6 13.500h.01"],
];

function route(place) {
  const [page = "overview", name] = place.parts;
  if (page === "overview") return html`<${Overview} />`;
  if (page === "topics") return name ? html`<${Topic} key=${name} place=${place} />` : html`<${Topics} />`;
  if (page === "groups") return name ? html`<${Group} key=${name} group=${name} />` : html`<${Groups} />`;
  if (page === "schemas") return html`<${Schemas} place=${place} />`;
  if (page === "audit") return html`<${Audit} />`;
  if (page === "quotas") return html`<${Quotas} />`;
  if (page === "access") return html`<${Access} />`;
  if (page === "brokers") return html`<${Brokers} place=${place} />`;
  return html`<${Page} title="Nothing here"><${Empty} title="There is no such page.">
    <a href=${link("overview")}>Go to the overview</a><//><//>`;
}

function App() {
  const place = usePlace();
  const session = useLoad((signal) => get("/session", signal), []);
  const main = useRef(null);
  const first = useRef(true);
  const [lost, setLost] = useState(false);
  const page = place.parts[0] || "overview";
  useEffect(() => {
    const leave = () => setLost(true);
    addEventListener("login-required", leave);
    return () => removeEventListener("login-required", leave);
  }, []);
  useEffect(() => {
    // Whoever uses a keyboard or a screen reader begins at the new page's title.
    if (first.current) first.current = false;
    else document.getElementById("page-title")?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [place.parts.join("/")]);
  if (session.error) return html`<main class="alone"><${Notice} kind="bad" text=${session.error.message} /></main>`;
  if (!session.data) return null;
  if (session.data.needs_login && (lost || !session.data.user)) {
    const came = () => {
      setLost(false);
      session.reload();
    };
    return html`<${Login} done=${came} /><${Sayings} />`;
  }
  const leave = async () => {
    await call("DELETE", "/session");
    session.reload();
  };
  return html`<${Session.Provider} value=${session.data}>
    <a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault();
      main.current.focus();
    }}>Skip to the content</a>
    <div class="frame">
      <${Side} page=${page} session=${session.data} leave=${leave} />
      <main id="main" tabindex="-1" ref=${main}>${route(place)}</main>
    </div>
    <${Sayings} />
  <//>`;
}

function Side({ page, session, leave }) {
  const [theme, choose] = useTheme();
  const other = theme === "dark" ? "light" : "dark";
  return html`<header class="side">
    <a class="brand" href=${link("overview")}><img src="icon.svg" alt="" width="26" height="26" />tidelog</a>
    <nav aria-label="Pages"><ul>
      ${PAGES.map(([name, text, drawn]) => html`<li><a href=${link(name)} aria-current=${page === name ? "page" : undefined}>
        <svg viewBox="0 0 20 20" aria-hidden="true"><path d=${drawn} /></svg>${text}</a></li>`)}
    </ul></nav>
    <div class="side-foot">
      ${session.read_only && html`<span class="badge warn">read-only</span>`}
      ${session.user && html`<div class="who"><span title="Logged in as ${session.user}">${session.user}</span>
        <button class="quiet small" onClick=${leave}>Log out</button></div>`}
      <button class="quiet small" aria-label="Switch to the ${other} theme" onClick=${() => choose(other)}>
        ${theme === "dark" ? "☀ Light" : "☾ Dark"}</button>
      <a class="muted" href="api/v1/openapi.json">REST API</a>
      <span class="muted">version ${session.version}</span>
    </div>
  </header>`;
}

addEventListener("unhandledrejection", (event) => {
  if (event.reason && event.reason.name === "ApiError") say(event.reason.message, "bad");
});

render(html`<${App} />`, document.getElementById("app"));
