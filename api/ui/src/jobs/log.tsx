import { useEffect, useRef, useState } from "preact/hooks";
import { message, query, send } from "../api/client";
import { useRepeated } from "../api/poll";
import { hasEnded, type Job } from "../api/types";
import { Card } from "../parts/parts";

/** most is how much of a log is shown, in characters: the end of it. */
const most = 500_000;

/** Log is what a job has written, in its present attempt. */
export function Log({ job }: { job: Job }) {
  const place = job.place;
  if (!place?.job_name || place.url) return null;
  const path = `/system/logs/${encodeURIComponent(place.service_name)}/${encodeURIComponent(place.job_name)}${query({ cluster_id: place.cluster_id })}`;
  return <LogAt key={path} path={path} over={hasEnded(job)} />; // another attempt begins anew
}

/** LogAt reads a log, again and again until it is over. */
function LogAt({ path, over }: { path: string; over: boolean }) {
  const [text, setText] = useState<string>();
  const [error, setError] = useState("");
  const box = useRef<HTMLPreElement>(null);
  const following = useRef(true);
  useRepeated(async (stop) => {
    try {
      const answer = await send(path, { headers: { Accept: "*/*" }, signal: stop });
      const all = await answer.text();
      setText(all.length > most ? `…\n${all.slice(-most)}` : all);
      setError("");
    } catch (err) {
      if (!stop.aborted) setError(message(err));
    }
  }, over ? 0 : 2000, []);
  useEffect(() => {
    const b = box.current;
    if (b && following.current) b.scrollTop = b.scrollHeight;
  }, [text]);
  return (
    <Card title="Log" aside={over ? undefined : "followed"}>
      {error && <p class="muted">{text === undefined ? "There is no log to show" : "It could not be read again"}: {error}</p>}
      {text !== undefined && (text === "" ? <p class="muted">It has written nothing{over ? "" : " yet"}.</p> : (
        <pre ref={box} class="source log" tabIndex={0} aria-label="Log" onScroll={(e) => { const b = e.currentTarget; following.current = b.scrollHeight - b.scrollTop - b.clientHeight < 40; }}>{text}</pre>
      ))}
    </Card>
  );
}
