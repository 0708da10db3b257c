const whole = new Intl.NumberFormat();
const tenth = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

export function count(n: number): string {
  return whole.format(n);
}

/** bytes in the units of Kubernetes. */
export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${tenth.format(n)} ${units[i] ?? ""}`;
}

/** cores of millicores. */
export function cores(millicores: number): string {
  return tenth.format(millicores / 1000);
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}
