import { useEffect, useState } from "preact/hooks";
import { message, send } from "./client";

/**
 * useRepeated runs a task at once, and then again and again while the page is seen; every is in
 * milliseconds, and 0 runs it once. Other inputs begin anew.
 */
export function useRepeated(task: (stop: AbortSignal) => Promise<void>, every: number, inputs: unknown[]): void {
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const run = async () => {
      await task(stop.signal);
      if (!stop.signal.aborted && every > 0) wait();
    };
    const wait = () => {
      timer = window.setTimeout(() => (document.visibilityState === "visible" ? void run() : wait()), every);
    };
    void run();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [every, ...inputs]);
}

export interface Polled<T> {
  data: T | undefined;
  /** next is the token that continues the list behind the answer; "" without one. */
  next: string;
  error: string | undefined;
  reload: () => void;
}

/** usePoll reads a path as useRepeated says. The last answer stays while a later one fails. */
export function usePoll<T>(path: string, every: number): Polled<T> {
  const [state, setState] = useState<{ path: string; data?: T; next?: string; error?: string }>({ path });
  const [round, setRound] = useState(0);
  useRepeated(async (stop) => {
    try {
      const answer = await send(path, { signal: stop });
      const data = (await answer.json()) as T; // the type is that of openapi.yaml
      if (!stop.aborted) setState({ path, data, next: answer.headers.get("Oscarfed-Continue") ?? "" });
    } catch (err) {
      if (stop.aborted) return;
      setState((s) => ({ ...(s.path === path ? s : {}), path, error: message(err) }));
    }
  }, every, [path, round]);
  const fits = state.path === path;
  return {
    data: fits ? state.data : undefined,
    next: fits ? state.next ?? "" : "",
    error: fits ? state.error : undefined,
    reload: () => setRound((n) => n + 1),
  };
}
