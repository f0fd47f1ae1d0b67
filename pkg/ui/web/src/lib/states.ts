import type { Cluster, LinkState, Machine, Pool, State } from '../api/types';

/** The meaning of a state for a user. Each tone has a colour and an icon. */
export type Tone = 'good' | 'busy' | 'bad' | 'warn' | 'paused' | 'off';

const tones: Record<State | LinkState, Tone> = {
  Ready: 'good',
  Running: 'good',
  OK: 'good',
  Waiting: 'busy',
  Creating: 'busy',
  Joining: 'busy',
  Failed: 'bad',
  Broken: 'bad',
  Unhealthy: 'warn',
  Paused: 'paused',
  Deleting: 'off',
  Behind: 'off',
  Unknown: 'off',
};

export const toneOf = (state: State | LinkState): Tone => tones[state] ?? 'off';

/** The states of clusters, the most urgent first. */
export const clusterStates = ['Failed', 'Waiting', 'Deleting', 'Paused', 'Ready'] as const satisfies readonly State[];

export function urgency(state: State): number {
  const at = (clusterStates as readonly State[]).indexOf(state);
  return at < 0 ? clusterStates.length : at;
}

export interface Count {
  ready: number;
  wanted: number;
}

/** Running machines, and the machines that the pools request. A cluster of existing hosts requests what it has. */
export function countMachines(cluster: Cluster, machines: readonly Machine[]): Count {
  const ready = machines.filter((m) => m.state === 'Running').length;
  const pools = cluster.pools ?? [];
  const wanted = pools.reduce((sum, pool) => sum + wantedOf(pool, machines), 0);
  return { ready, wanted: pools.length ? wanted : machines.length };
}

/** The machines that a pool should have. A scaled pool has as many as its scaler last wanted. */
export function wantedOf(pool: Pool, machines: readonly Machine[]): number {
  if (!pool.scaled) return pool.wanted;
  return Math.max(pool.wanted, machines.filter((m) => m.pool === pool.name && m.state !== 'Deleting').length);
}
