import type { Cluster, Machine, State } from '../../api/types';
import { countMachines, urgency } from '../../lib/states';
import { keyOf } from '../../live/store';
import type { ClustersSearch, SortColumn } from './search';

/** A row of the table: a cluster with the count of its machines. */
export interface ClusterRow {
  cluster: Cluster;
  ready: number;
  wanted: number;
}

export function makeRows(
  clusters: readonly Cluster[],
  machines: ReadonlyMap<string, readonly Machine[]>,
): ClusterRow[] {
  return clusters.map((cluster) => ({ cluster, ...countMachines(cluster, machines.get(keyOf(cluster)) ?? []) }));
}

/** Whether a cluster has all words of the search, in its names or in what it waits for. */
function matchesText(cluster: Cluster, words: string[]): boolean {
  const { namespace, name, id, version, reason, message } = cluster;
  const text = [namespace, name, id, version, reason, message].join(' ').toLowerCase();
  return words.every((word) => text.includes(word));
}

/** Rows that pass every filter except that for the state. */
export function filterRows(rows: ClusterRow[], search: ClustersSearch): ClusterRow[] {
  const words = (search.q ?? '').toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter(
    ({ cluster }) =>
      (!search.namespace || cluster.namespace === search.namespace) &&
      (!search.version || cluster.version === search.version) &&
      matchesText(cluster, words),
  );
}

export function countStates(rows: ClusterRow[]): Map<State, number> {
  const counts = new Map<State, number>();
  for (const { cluster } of rows) counts.set(cluster.state, (counts.get(cluster.state) ?? 0) + 1);
  return counts;
}

/** All values of a field, sorted, for a filter. */
export function valuesOf(clusters: readonly Cluster[], field: 'namespace' | 'version'): string[] {
  const values = new Set(clusters.map((cluster) => cluster[field]).filter((value) => value !== undefined));
  return [...values].sort(compareText);
}

const collator = new Intl.Collator(undefined, { numeric: true });
const compareText = (a: string, b: string) => collator.compare(a, b);

/** The order of each column. Equal rows follow by name. */
export const comparers: Record<SortColumn, (a: ClusterRow, b: ClusterRow) => number> = {
  state: (a, b) => urgency(a.cluster.state) - urgency(b.cluster.state),
  name: (a, b) => compareText(a.cluster.name, b.cluster.name),
  namespace: (a, b) => compareText(a.cluster.namespace, b.cluster.namespace),
  version: (a, b) => compareText(a.cluster.version ?? '', b.cluster.version ?? ''),
  machines: (a, b) => a.wanted - b.wanted || a.ready - b.ready,
  since: (a, b) => compareText(b.cluster.since ?? '', a.cluster.since ?? ''),
};

const mostPlaces = 4;

/**
 * The namespaces in which a user may want to create a cluster: the one of the filter, or else the chosen ones, or the
 * usual one and those with the most clusters.
 */
export function placesToCreate(filter: string | undefined, chosen: string, clusters: readonly Cluster[]): string[] {
  if (filter) return [filter];
  if (chosen) return chosen.split(',').slice(0, mostPlaces);
  const counts = new Map<string, number>();
  for (const { namespace } of clusters) counts.set(namespace, (counts.get(namespace) ?? 0) + 1);
  const frequent = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name]) => name);
  return [...new Set(['fleet-default', ...frequent])].slice(0, mostPlaces);
}
