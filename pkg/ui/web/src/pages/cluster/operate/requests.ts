import { useSyncExternalStore } from 'react';
import type { ClusterName } from '../ClusterPage';
import type { Request } from './follow';

// The operations that this window has requested, so that every tab of a cluster's page follows them. A reload forgets
// them. The row of the cluster then shows an operation while it runs.
const requests = new Map<string, Request>();
const listeners = new Set<() => void>();
const keyOf = ({ namespace, name }: ClusterName) => `${namespace}/${name}`;

/** Follows an operation from now on, or stops that. */
export function follow(cluster: ClusterName, request: Request | undefined) {
  if (request) requests.set(keyOf(cluster), request);
  else requests.delete(keyOf(cluster));
  listeners.forEach((listener) => listener());
}

export function useRequested(cluster: ClusterName): Request | undefined {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    () => requests.get(keyOf(cluster)),
  );
}

// The clusters whose deletion this window has requested. A page says that such a cluster is gone, even if the cluster
// left before the page saw its deletion.
const deletions = new Set<string>();

export const noteDeletion = (cluster: ClusterName) => void deletions.add(keyOf(cluster));
export const forgetDeletion = (cluster: ClusterName) => void deletions.delete(keyOf(cluster));
export const isDeletionOf = (cluster: ClusterName) => deletions.has(keyOf(cluster));
