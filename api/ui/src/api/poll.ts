import { useEffect, useState } from "preact/hooks";
import { ApiError, message, read } from "./client";

export interface Polled<T> {
  data: T | undefined;
  error: string | undefined;
  status: number | undefined;
  reload: () => void;
}

/**
 * usePoll reads a path now and then while the page is seen; every is in milliseconds, and 0 reads
 * it once. The last answer stays while a later one fails.
 */
export function usePoll<T>(path: string | undefined, every: number): Polled<T> {
  const [state, setState] = useState<{ path: string | undefined; data?: T; error?: string; status?: number }>({ path });
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (path === undefined) return;
    const stop = new AbortController();
    let timer = 0;
    const ask = async () => {
      if (document.visibilityState === "visible") {
        try {
          const data = await read<T>(path, { signal: stop.signal });
          if (stop.signal.aborted) return;
          setState({ path, data });
        } catch (err) {
          if (stop.signal.aborted) return;
          const status = err instanceof ApiError ? err.status : 0;
          setState((s) => ({ ...(s.path === path ? s : {}), path, error: message(err), status }));
        }
      }
      if (every > 0) timer = window.setTimeout(() => void ask(), every);
    };
    void ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [path, every, round]);
  const fits = state.path === path;
  return {
    data: fits ? state.data : undefined,
    error: fits ? state.error : undefined,
    status: fits ? state.status : undefined,
    reload: () => setRound((n) => n + 1),
  };
}
