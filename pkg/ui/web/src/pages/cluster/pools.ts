import type { Cluster, Machine, Pool } from '../../api/types';
import { wantedOf } from '../../lib/states';

export interface PoolItem {
  kind: 'pool';
  key: string;
  pool?: Pool;
  /** The title of machines without a pool of the spec. */
  title: string;
  ready: number;
  wanted: number;
}

export interface MachineItem {
  kind: 'machine';
  key: string;
  machine: Machine;
}

export type ListItem = PoolItem | MachineItem;

/** The lines of the list: each pool with its machines, then machines that belong to no pool of the spec. */
export function listItems(cluster: Cluster, machines: readonly Machine[]): ListItem[] {
  const pools = cluster.pools ?? [];
  const items = pools.flatMap((pool) =>
    section(
      `Pool ${pool.name}`,
      machines.filter((m) => m.pool === pool.name),
      pool,
    ),
  );
  const named = new Set(pools.map((pool) => pool.name));
  const others = machines.filter((m) => !m.pool || !named.has(m.pool));
  const title = others.some((m) => m.pool) ? 'Machines of removed pools' : 'Existing hosts';
  return others.length ? [...items, ...section(title, others)] : items;
}

function section(title: string, machines: Machine[], pool?: Pool): ListItem[] {
  const ready = machines.filter((m) => m.state === 'Running').length;
  return [
    {
      kind: 'pool',
      key: `pool ${title}`,
      pool,
      title,
      ready,
      wanted: pool ? wantedOf(pool, machines) : machines.length,
    },
    ...machines.map((machine): MachineItem => ({ kind: 'machine', key: machine.name, machine })),
  ];
}
