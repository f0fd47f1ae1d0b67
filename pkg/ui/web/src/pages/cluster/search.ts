export const tabs = ['overview', 'machines', 'snapshots', 'events', 'log', 'yaml'] as const;
export type Tab = (typeof tabs)[number];

/** The tabs of a cluster. Drover has no snapshots of imported clusters. */
export const tabsOf = ({ imported }: { imported?: boolean }) =>
  imported ? tabs.filter((tab) => tab !== 'snapshots') : tabs;

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
