import type { Cluster, Machine, Stage } from '../../api/types';
import { secondsBetween } from '../../lib/time';

/** One bar of the timeline, in seconds from the creation of the cluster. */
export interface Bar {
  name: string;
  begin: number;
  end: number;
  running: boolean;
}

export interface Lane {
  label: string;
  bars: Bar[];
}

function bars(stages: Stage[] | undefined, zero: string, now: number): Bar[] {
  return (stages ?? []).map((stage) => ({
    name: stage.name,
    begin: secondsBetween(zero, stage.begin),
    end: secondsBetween(zero, stage.end ?? now),
    running: !stage.end,
  }));
}

/** The time from apply to Ready: a lane of the cluster, and lanes of the machines that were made during it. */
export function lanesOf(cluster: Cluster, machines: readonly Machine[], now: number): Lane[] {
  const own: Lane = { label: 'Cluster', bars: bars(cluster.stages, cluster.created, now) };
  const end = endOf([own]);
  const running = own.bars.some((bar) => bar.running);
  const others = machines
    .map((machine) => ({ label: shortName(cluster, machine), bars: bars(machine.stages, cluster.created, now) }))
    // Machines that came later belong to another story. They would stretch the scale to days.
    .filter((lane) => lane.bars.length > 0 && (running || lane.bars[0]!.begin <= end))
    .sort((a, b) => a.bars[0]!.begin - b.bars[0]!.begin);
  return [own, ...others];
}

/** Names of machines begin with the name of their cluster. */
function shortName(cluster: Cluster, machine: Machine): string {
  const prefix = `${cluster.name}-`;
  return machine.name.startsWith(prefix) ? machine.name.slice(prefix.length) : machine.name;
}

export function endOf(lanes: Lane[]): number {
  return Math.max(1, ...lanes.flatMap((lane) => lane.bars.map((bar) => bar.end)));
}

const steps = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400];

/** Round positions of the scale, at most five. */
export function ticks(end: number): number[] {
  const step = steps.find((s) => end / s <= 5) ?? Math.ceil(end / 5 / 86_400) * 86_400;
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, i) => i * step);
}
