// The one place that knows which library draws the page.
export {
  html,
  render,
  createContext,
  useContext,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  useCallback,
} from "../vendor/preact-htm.js";
