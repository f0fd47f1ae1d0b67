import type { Cluster, Releases } from '../../../api/types';

interface Version {
  distribution: 'k3s' | 'rke2';
  /** Major, minor, patch, and the revision of the distribution. */
  numbers: [number, number, number, number];
}

export function parseVersion(text: string): Version | undefined {
  const found = /^v(\d+)\.(\d+)\.(\d+)(?:-[\w.-]+)?\+(?:(k3s)|(rke2)r)(\d+)$/.exec(text);
  if (!found) return undefined;
  const number = (at: number) => Number(found[at]);
  return { distribution: found[4] ? 'k3s' : 'rke2', numbers: [number(1), number(2), number(3), number(6)] };
}

const minorOf = ({ numbers: [major, minor] }: Version) => `${major}.${minor}`;

function compare(a: string, b: string): number {
  const [left, right] = [parseVersion(a)?.numbers ?? [], parseVersion(b)?.numbers ?? []];
  for (const [i, value] of left.entries()) if (value !== right[i]) return value - (right[i] ?? 0);
  return 0;
}

/** The versions that other clusters have and that this cluster can have next, the newest first. */
export function offeredVersions(now: string, clusters: readonly Cluster[]): string[] {
  const current = parseVersion(now);
  const all = new Set(clusters.flatMap(({ version }) => version ?? []));
  return [...all]
    .filter((text) => {
      const version = parseVersion(text);
      if (!version || text === now) return false;
      if (!current) return true;
      const [major, minor] = current.numbers;
      const isNext = version.numbers[0] === major && [minor, minor + 1].includes(version.numbers[1]);
      return version.distribution === current.distribution && isNext && compare(text, now) > 0;
    })
    .sort((a, b) => compare(b, a));
}

/** The minors that a cluster can have next: its own and the one after it. */
export function offeredMinors(now: string, releases: Releases): string[] {
  const current = parseVersion(now);
  if (!current) return [];
  const [major, minor] = current.numbers;
  return (releases[current.distribution] ?? []).filter((m) =>
    [`${major}.${minor}`, `${major}.${minor + 1}`].includes(m),
  );
}

/** Why a version is impossible. */
export function problemOf(text: string, now: string, releases?: Releases): string | undefined {
  const [version, current] = [parseVersion(text), parseVersion(now)];
  if (!version) return 'A version looks like v1.36.2+rke2r1 or v1.36.2+k3s1.';
  if (current && version.distribution !== current.distribution)
    return `The cluster is one of ${current.distribution}, and this is a version of ${version.distribution}.`;
  const known = releases?.[version.distribution];
  if (known?.length && !known.includes(minorOf(version)))
    return `The server knows the minors ${known.join(', ')} of ${version.distribution}.`;
  return undefined;
}

/** What the user must know about a step that Kubernetes does not support. */
export function warningOf(text: string, now: string): string | undefined {
  const [version, current] = [parseVersion(text), parseVersion(now)];
  if (!version || !current || version.numbers[0] !== current.numbers[0]) return undefined;
  const [next, was] = [version.numbers[1], current.numbers[1]];
  if (next < was)
    return 'Kubernetes supports no downgrade to an earlier minor. Restore a snapshot with that version instead.';
  if (next > was + 1)
    return `Kubernetes supports no upgrade over several minors. Upgrade to ${current.numbers[0]}.${was + 1} first.`;
  return undefined;
}
