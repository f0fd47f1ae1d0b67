import type { State } from '../../api/types';
import { clusterStates } from '../../lib/states';

export const sortable = ['state', 'name', 'namespace', 'version', 'machines', 'since'] as const;
export type SortColumn = (typeof sortable)[number];

/** What the URL of the page holds. */
export interface ClustersSearch {
  q?: string;
  state?: State;
  namespace?: string;
  version?: string;
  /** A column, with "-" in front for descending order. */
  sort?: string;
}

const text = (value: unknown) => (typeof value === 'string' && value ? value : undefined);

/** Keeps what the page understands. Links can be old or typed by hand. */
export function readClustersSearch(search: Record<string, unknown>): ClustersSearch {
  const sort = text(search.sort);
  return {
    q: search.q === undefined ? undefined : text(String(search.q)),
    state: clusterStates.find((state) => state === search.state),
    namespace: text(search.namespace),
    version: text(search.version),
    sort: sort && (sortable as readonly string[]).includes(sort.replace(/^-/, '')) ? sort : undefined,
  };
}
