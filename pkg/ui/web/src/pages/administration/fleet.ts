import type { Cluster, Machine, Row } from '../../api/types';
import { secondsBetween } from '../../lib/time';

/** Objects that wait or fail for the same reason. */
export interface StuckReason {
  reason: string;
  clusters: number;
  machines: number;
  /** The earliest start of the reason. */
  oldest?: string;
  /** The message of the object that has it longest. */
  message?: string;
}

/**
 * Groups everything that is neither ready nor running by its reason, the most frequent first. A row without a reason has
 * its message as reason.
 */
export function stuckByReason(
  clusters: readonly Cluster[],
  machines: ReadonlyMap<string, readonly Machine[]>,
): StuckReason[] {
  const reasons = new Map<string, StuckReason>();
  const add = (row: Row, kind: 'clusters' | 'machines') => {
    if (row.state === 'Ready' || row.state === 'Running') return;
    const reason = row.reason || row.message || row.state;
    const entry = reasons.get(reason) ?? { reason, clusters: 0, machines: 0 };
    reasons.set(reason, entry);
    entry[kind]++;
    if (!entry.oldest || (row.since && row.since < entry.oldest)) {
      entry.oldest = row.since;
      entry.message = row.message;
    }
  };
  clusters.forEach((cluster) => add(cluster, 'clusters'));
  for (const list of machines.values()) list.forEach((machine) => add(machine, 'machines'));
  return [...reasons.values()].sort((a, b) => b.clusters + b.machines - a.clusters - a.machines);
}

/** The durations of a stage in all clusters or machines that have passed it, in seconds and sorted. */
export interface StageDurations {
  name: string;
  of: 'clusters' | 'machines';
  seconds: number[];
}

const stageOrder = ['objects', 'bootstrap', 'join', 'infrastructure', 'node'];

export function stageDurations(
  clusters: readonly Cluster[],
  machines: ReadonlyMap<string, readonly Machine[]>,
): StageDurations[] {
  const stages = new Map<string, StageDurations>();
  const add = (row: Row, of: StageDurations['of']) => {
    for (const { name, begin, end } of row.stages ?? []) {
      if (!end) continue;
      const entry = stages.get(name) ?? { name, of, seconds: [] };
      stages.set(name, entry);
      entry.seconds.push(Math.max(0, secondsBetween(begin, end)));
    }
  };
  clusters.forEach((cluster) => add(cluster, 'clusters'));
  for (const list of machines.values()) list.forEach((machine) => add(machine, 'machines'));
  for (const stage of stages.values()) stage.seconds.sort((a, b) => a - b);
  return [...stages.values()].sort((a, b) => stageOrder.indexOf(a.name) - stageOrder.indexOf(b.name));
}

/** The value below which a share of the sorted values lies. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

/** Where the bins of a histogram begin, in seconds: round values on a roughly logarithmic scale. */
export const binStarts = [
  0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 420, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200,
  10_800, 14_400, 21_600, 43_200, 86_400,
];

/** Counts sorted durations in bins. A bin is an index of binStarts. */
export function histogram(seconds: readonly number[]): { bins: number[]; counts: number[] } {
  const binOf = (value: number) => binStarts.findLastIndex((start) => start <= value);
  const first = Math.max(0, binOf(seconds[0] ?? 0) - 1);
  const last = Math.min(binStarts.length - 1, binOf(seconds.at(-1) ?? 0) + 1);
  const bins = Array.from({ length: last - first + 1 }, (_, i) => first + i);
  const counts = bins.map(() => 0);
  for (const value of seconds) counts[binOf(value) - first]!++;
  return { bins, counts };
}
