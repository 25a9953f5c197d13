// Loading, again and again while the page is looked at; who is logged in; where we are.
import { createContext, useCallback, useContext, useEffect, useRef, useState } from "./preact.js";

export const Session = createContext(null);
export const useSession = () => useContext(Session);

// What `load(signal)` brings: {data, error, loading, reload}.  What was there stays while it is loaded again.
export function useLoad(load, keys, everyMs = 0) {
  const [state, setState] = useState({ data: null, error: null, loading: true });
  const turn = useRef(0);
  const [asked, ask] = useState(0);
  useEffect(() => {
    const mine = ++turn.current;
    const control = new AbortController();
    let timer = null;
    const again = () => {
      if (everyMs) timer = setTimeout(run, document.hidden ? everyMs * 4 : everyMs);
    };
    const run = async () => {
      try {
        const data = await load(control.signal);
        if (mine === turn.current) setState({ data, error: null, loading: false });
      } catch (error) {
        if (error.name === "AbortError" || mine !== turn.current) return;
        setState((before) => ({ data: before.data, error, loading: false }));
      }
      if (!control.signal.aborted) again();
    };
    run();
    return () => {
      control.abort();
      clearTimeout(timer);
    };
  }, [...keys, asked]);
  const reload = useCallback(() => ask((before) => before + 1), []);
  return { ...state, reload };
}

// The place behind the #: its parts, decoded, and what stands after the question mark.
export function readPlace() {
  const [where, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = where.split("/").filter(Boolean).map((each) => {
    try {
      return decodeURIComponent(each);
    } catch {
      return each;
    }
  });
  return { parts, search: new URLSearchParams(search) };
}

export function usePlace() {
  const [place, setPlace] = useState(readPlace);
  useEffect(() => {
    const moved = () => setPlace(readPlace());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return place;
}

export const link = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

export const go = (where) => {
  location.hash = where;
};

export function useTheme() {
  const [, setTurn] = useState(0);
  useEffect(() => {
    const changed = () => setTurn((before) => before + 1);
    addEventListener("theme-changed", changed);
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", changed);
    return () => {
      removeEventListener("theme-changed", changed);
      system.removeEventListener("change", changed);
    };
  }, []);
  const chosen = document.documentElement.dataset.theme;
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const choose = (theme) => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("tidelog-theme", theme);
    dispatchEvent(new Event("theme-changed"));
  };
  return [dark ? "dark" : "light", choose];
}
