import { useComputed } from "@preact/signals";
import type { ComponentChildren, FunctionComponent } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Account as Who } from "./account/account";
import { Audit } from "./audit/audit";
import { ClusterView } from "./clusters/cluster";
import { Clusters } from "./clusters/clusters";
import { FederationView } from "./federations/federation";
import { Federations } from "./federations/federations";
import { JobView } from "./jobs/job";
import { Jobs } from "./jobs/jobs";
import { connection, loaded } from "./live/store";
import { follow } from "./live/stream";
import { Overview } from "./overview/overview";
import { Ago } from "./parts/time";
import { lazy } from "./parts/lazy";
import { Empty, Loading, Logo, Page } from "./parts/parts";
import { route, to } from "./route";
import { Login } from "./session/login";
import { loggedIn, logOut, me } from "./session/session";

const Create = lazy(async () => (await import("./create/create")).Create, "the form");
const Change = lazy(async () => (await import("./create/create")).Change, "the form");
const Data = lazy(async () => (await import("./data/data")).Data, "your buckets");
const BucketView = lazy(async () => (await import("./data/bucket")).BucketView, "the bucket");

interface View {
  name: string;
  /** menu is its word in the navigation; without it, it is reached from others. */
  menu?: string;
  shows: (path: string[]) => boolean;
  view: FunctionComponent<{ path: string[] }>;
}

const views: View[] = [
  { name: "", menu: "Overview", shows: (p) => p.length === 0, view: Overview },
  { name: "federations", menu: "Federations", shows: (p) => p.length === 1, view: Federations },
  { name: "federations", shows: (p) => p.length === 2 || (p.length === 3 && p[2] === "definition"), view: ({ path }) => <FederationView key={path[1]} uid={path[1] ?? ""} tab={path[2] ?? ""} /> },
  { name: "create", shows: (p) => p.length === 1, view: Create },
  { name: "federations", shows: (p) => p.length === 3 && p[2] === "change", view: ({ path }) => <Change key={path[1]} uid={path[1] ?? ""} /> },
  { name: "jobs", menu: "Jobs", shows: (p) => p.length === 1, view: Jobs },
  { name: "jobs", shows: (p) => p.length === 2, view: ({ path }) => <JobView key={path[1]} id={path[1] ?? ""} /> },
  { name: "data", menu: "Data", shows: (p) => p.length === 1, view: Data },
  { name: "data", shows: (p) => p.length === 3, view: ({ path }) => <BucketView key={`${path[1]}/${path[2]}`} cluster={path[1] ?? ""} bucket={path[2] ?? ""} /> },
  { name: "clusters", menu: "Clusters", shows: (p) => p.length === 1, view: Clusters },
  { name: "clusters", shows: (p) => p.length === 2, view: ({ path }) => <ClusterView id={path[1] ?? ""} /> },
  { name: "audit", menu: "Audit", shows: (p) => p.length === 1, view: Audit },
  { name: "account", menu: "Who am I", shows: (p) => p.length === 1, view: Who },
];

export function App() {
  if (!loggedIn.value) return <Login />;
  return <Shell />;
}

function Shell() {
  useEffect(() => {
    const stop = new AbortController();
    void follow(stop.signal);
    return () => stop.abort();
  }, []);
  const path = route.value.path;
  const at = path.join("/");
  const content = useRef<HTMLElement>(null);
  const before = useRef(at);
  const menu = useRef<HTMLElement>(null);
  useEffect(() => {
    // On a phone the menu is longer than the window.
    const current = menu.current?.querySelector<HTMLElement>("[aria-current]");
    if (menu.current && current) menu.current.scrollLeft = current.offsetLeft - (menu.current.clientWidth - current.offsetWidth) / 2;
    if (before.current === at) return;
    before.current = at;
    content.current?.querySelector("h1")?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }, [at]);
  const found = views.find((v) => v.name === (path[0] ?? "") && v.shows(path));
  return (
    <div class="shell">
      <a class="skip" href="#content" onClick={(e) => { e.preventDefault(); content.current?.querySelector("h1")?.focus(); }}>
        Skip to the content
      </a>
      <header class="side">
        <a class="brand" href={to()}><Logo /><span>oscarfed</span></a>
        <nav class="menu" aria-label="Views" ref={menu}>
          {views.filter((v) => v.menu).map((v) => (
            <a key={v.name} href={v.name ? to(v.name) : to()} aria-current={v.name === (path[0] ?? "") ? "page" : undefined}>{v.menu}</a>
          ))}
        </nav>
        <div class="side-foot">
          <Connected />
          <Account />
        </div>
      </header>
      <main id="content" ref={content}>
        <Lost />
        {found ? <Ready>{<found.view path={path} />}</Ready> : (
          <Page title="Not found">
            <Empty title="There is no such view."><a href={to()}>Go to the overview</a></Empty>
          </Page>
        )}
      </main>
    </div>
  );
}

/** Ready shows a view when the first state was told. */
function Ready({ children }: { children: ComponentChildren }) {
  if (loaded.value) return <>{children}</>;
  return <Page title="Federation"><Loading what="what you may see" /></Page>;
}

function Connected() {
  const state = useComputed(() => connection.value.state);
  const text = { connecting: "Connecting", live: "Live", lost: "Connection lost" }[state.value];
  return <p class={`connected ${state.value}`} role="status"><span class="dot" aria-hidden="true" />{text}</p>;
}

/** Lost says that what is shown may be old. */
function Lost() {
  const c = connection.value;
  if (c.state !== "lost") return null;
  return (
    <div class="note warn lost" role="alert">
      <p><strong>The connection was lost <Ago at={c.since} />.</strong> {c.why} What you see may be old; it is resumed by itself where it ended.</p>
    </div>
  );
}

function Account() {
  return (
    <div class="account">
      <span class="who" title={me.value?.subject}><bdi>{me.value?.administrator ? "Administrator" : me.value?.name || me.value?.subject}</bdi></span>
      <button type="button" class="button small" onClick={logOut}>Log out</button>
    </div>
  );
}
