import { useSyncExternalStore } from 'react';
import type { Machine } from '../api/types';
import { Connection } from './connection';
import { RowStore, type Kind, type Snapshot } from './store';

export const rows = new RowStore((publish) => requestAnimationFrame(publish));
export const connection = new Connection(rows);

/** A part of the snapshot. The selector must return the same value until the part changes. */
function useSnapshot<T>(select: (snapshot: Snapshot) => T): T {
  return useSyncExternalStore(rows.subscribe, () => select(rows.snapshot()));
}

const none: readonly Machine[] = [];

export const useClusters = () => useSnapshot((s) => s.clusterList);
export const useCluster = (namespace: string, name: string) =>
  useSnapshot((s) => s.clusters.get(`${namespace}/${name}`));
export const useMachines = (namespace: string, name: string) =>
  useSnapshot((s) => s.machines.get(`${namespace}/${name}`) ?? none);
export const useMachinesByCluster = () => useSnapshot((s) => s.machines);
export const useSynced = (kind: Kind) => useSnapshot((s) => s.synced.has(kind));
export const useProblems = () => useSnapshot((s) => s.problems);
export const useConnection = () => useSyncExternalStore(connection.subscribe, connection.link);
