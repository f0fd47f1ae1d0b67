export const tabs = ['overview', 'machines', 'events', 'log', 'yaml'] as const;
export type Tab = (typeof tabs)[number];

/** What the URL of the page holds. */
export interface ClusterSearch {
  tab?: Tab;
  /** The machine whose details are open. */
  machine?: string;
}

/** Keeps what the page understands. Links can be old or typed by hand. */
export function readClusterSearch(search: Record<string, unknown>): ClusterSearch {
  return {
    tab: tabs.find((tab) => tab === search.tab),
    machine: typeof search.machine === 'string' ? search.machine : undefined,
  };
}
