import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Failure, Loading } from "./parts";

/** lazy loads a component when it is shown first: what few people need, or is larger than all else. */
export function lazy<P extends object>(load: () => Promise<FunctionComponent<P>>, what = "the picture"): FunctionComponent<P> {
  let loaded: FunctionComponent<P> | undefined;
  return function Lazy(props: P) {
    const [View, setView] = useState<FunctionComponent<P> | undefined>(() => loaded);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (View) return;
      load().then((c) => {
        loaded = c;
        setView(() => c);
      }, () => setFailed(true));
    }, [View]);
    if (failed) return <Failure error="A part of this page could not be loaded. Reload the page." />;
    return View ? <View {...props} /> : <Loading what={what} />;
  };
}
