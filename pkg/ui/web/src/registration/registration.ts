import type { Cluster, Machine } from '../api/types';

export const hostRoles = [
  { value: 'etcd', label: 'etcd' },
  { value: 'controlplane', label: 'Control plane' },
  { value: 'worker', label: 'Worker' },
] as const;
export type HostRole = (typeof hostRoles)[number]['value'];

/** The options of a registration command, as their form holds them. */
export interface HostOptions {
  roles: HostRole[];
  /** Separated by spaces or commas, such as "site=north". */
  labels: string;
  taints: string;
  address: string;
  internalAddress: string;
  nodeName: string;
}

/** Reports whether a cluster is one of existing hosts, and so has a registration command. */
export const isOfHosts = (cluster: Pick<Cluster, 'imported' | 'pools'>) => !cluster.imported && !cluster.pools?.length;

/** The roles that no host has. A cluster starts when each role has a host. */
export function missingRoles(machines: readonly Pick<Machine, 'roles' | 'state'>[]): HostRole[] {
  const present = new Set(machines.flatMap((m) => (m.state === 'Deleting' ? [] : (m.roles ?? []))));
  return hostRoles.map(({ value }) => value).filter((role) => !present.has(role));
}

export const noOptions = (roles: readonly HostRole[]): HostOptions => ({
  roles: roles.length ? [...roles] : ['worker'],
  labels: '',
  taints: '',
  address: '',
  internalAddress: '',
  nodeName: '',
});

const split = (text: string) => text.split(/[\s,]+/).filter(Boolean);

/** The query of a registration command. */
export function queryOf(options: HostOptions): string {
  const query = new URLSearchParams();
  const add = (name: string, value: string) => value && query.append(name, value);
  add(
    'roles',
    hostRoles
      .map(({ value }) => value)
      .filter((role) => options.roles.includes(role))
      .join(','),
  );
  split(options.labels).forEach((label) => add('labels', label));
  split(options.taints).forEach((taint) => add('taints', taint));
  add('address', options.address.trim());
  add('internalAddress', options.internalAddress.trim());
  add('nodeName', options.nodeName.trim());
  return query.toString();
}

/** The option that a problem of the server is about, such as "labels[0]". */
export const optionOf = (field: string | undefined) => /^[a-zA-Z]+/.exec(field ?? '')?.[0] ?? '';
