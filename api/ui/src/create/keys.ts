import type { Path } from "./fdl";

// A test of package ui holds these to the types of package oscar.

const texts = new Set([
  "name", "cluster_id", "image", "cpu", "memory", "total_memory", "total_cpu", "ephemeral_storage_request", "log_level", "token",
  "script", "vo", "owner", "namespace", "interlink_node_name", "visibility", "isolation_level",
]);
const textLists = new Set(["image_pull_secrets", "allowed_users", "bucket_list"]);
const textMaps = new Set(["annotations", "labels", "secrets", "volume"]);
const inFederation = new Set(["group_id", "topology", "delegation", "deployment", "drift"]);
const inMember = new Set(["type", "cluster_id", "service_name", "url"]);
const inExpose = new Set(["auth_type", "health_path", "probe_mode"]);
const notText = new Set(["verify", "ssl_verify"]);
const noTextInKserve = new Set(["min_scale", "max_scale", "enable_gpu", "set_auth"]);

/**
 * isText says whether OSCAR wants a text at a path of a service, where YAML may have a number or a
 * truth value: cpu: 0.1.
 */
export function isText(path: Path): boolean {
  const [first = "", second = "", third = "", fourth = ""] = path.map((p) => String(p).toLowerCase());
  if (path.length === 1) return texts.has(first);
  if (path.length === 2 && (textMaps.has(first) || textLists.has(first))) return true;
  switch (first) {
    case "environment":
      return path.length === 3 && (second === "variables" || second === "secrets");
    case "input":
    case "output":
      return path.length >= 3;
    case "mount":
      return path.length >= 2;
    case "kserve":
      return path.length >= 2 && !noTextInKserve.has(second);
    case "expose":
      return inExpose.has(second);
    case "storage_providers":
      return path.length === 4 && !notText.has(fourth);
    case "clusters":
      return path.length === 3 && !notText.has(third);
    case "federation":
      if (path.length === 2) return inFederation.has(second);
      return isMember(path.slice(2));
    case "replicas":
      return isMember(path.slice(1));
  }
  return false;
}

/** isMember says the same of a path below a list of members. */
function isMember(path: Path): boolean {
  const [, key = "", below] = path.map((p) => String(p).toLowerCase());
  return below === undefined ? inMember.has(key) : key === "headers";
}
