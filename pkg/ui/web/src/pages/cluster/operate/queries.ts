import { useQuery } from '@tanstack/react-query';
import { objectPath } from '../../../api/client';
import { queryClient } from '../../../api/queries';
import type { ObjectEvent } from '../../../api/types';
import { ask, askJSON, randomName } from '../../../change/api';
import type { ClusterName } from '../ClusterPage';
import { lastEnd, type End } from './follow';
import type { OperationField } from './kinds';
import type { RestoreMode } from './snapshots';
import type { Briefing, OperationState, Removal, Snapshot } from './types';

const every10s = 10_000;
const every5s = 5_000;

/** A dialog reads when it opens. What the user has seen then changes only on request. */
const forDialog = { staleTime: 0, gcTime: 0, refetchOnWindowFocus: false, refetchOnReconnect: false } as const;

export const snapshotsKey = ({ namespace, name }: ClusterName) => ['cluster', namespace, name, 'snapshots'];

export function useSnapshots(cluster: ClusterName) {
  return useQuery({
    queryKey: snapshotsKey(cluster),
    queryFn: ({ signal }) =>
      askJSON<{ items: Snapshot[] | null; notes?: string[] }>(pathOf(cluster, 'snapshots'), { signal }),
    refetchInterval: every10s,
  });
}

const pathOf = ({ namespace, name }: ClusterName, what: string) => objectPath('clusters', namespace, name, what);

export function useBriefing(cluster: ClusterName, snapshot: string, mode: RestoreMode) {
  const path = pathOf(cluster, `snapshots/${encodeURIComponent(snapshot)}/briefing?config=${mode}`);
  return useQuery({
    queryKey: ['cluster', cluster.namespace, cluster.name, 'briefing', snapshot, mode],
    queryFn: ({ signal }) => askJSON<Briefing>(path, { signal }),
    ...forDialog,
  });
}

/** What a request for each kind of operation would be. */
export function useOperations(cluster: ClusterName, enabled: boolean) {
  return useQuery({
    queryKey: ['cluster', cluster.namespace, cluster.name, 'operations'],
    queryFn: ({ signal }) => askJSON<{ items: OperationState[] | null }>(pathOf(cluster, 'operations'), { signal }),
    ...forDialog,
    enabled,
  });
}

export function useRemoval(cluster: ClusterName) {
  return useQuery({
    queryKey: ['cluster', cluster.namespace, cluster.name, 'removal'],
    queryFn: ({ signal }) => askJSON<Removal>(pathOf(cluster, 'removal'), { signal }),
    ...forDialog,
  });
}

/** Deletes exactly the cluster that the user has seen. A repeated request deletes nothing. */
export async function deleteCluster({ namespace, name }: ClusterName, seen: string) {
  const path = `namespaces/${encodeURIComponent(namespace)}/clusters/${encodeURIComponent(name)}`;
  // A browser repeats a request by itself if a connection ends without an answer. The server knows the name.
  const headers = { 'If-Match': `"${seen}"`, 'Idempotency-Key': randomName() };
  await ask(path, { method: 'DELETE', headers });
}

interface EventList {
  items: ObjectEvent[] | null;
}

const eventsKey = ({ namespace, name }: ClusterName) => ['cluster', namespace, name, 'events'];
const getEvents = (cluster: ClusterName, signal?: AbortSignal) =>
  askJSON<EventList>(pathOf(cluster, 'events'), { signal });

/** The Events of a cluster, read often while an operation is followed. */
export function useFollowedEvents(cluster: ClusterName, enabled: boolean) {
  return useQuery({
    queryKey: eventsKey(cluster),
    queryFn: ({ signal }) => getEvents(cluster, signal),
    refetchInterval: every5s,
    enabled,
  });
}

export const refetchEvents = (cluster: ClusterName) => queryClient.invalidateQueries({ queryKey: eventsKey(cluster) });

/** The newest end of an operation before a request. Without permission for Events, none is known. */
export async function endBefore(cluster: ClusterName, field: OperationField): Promise<End | undefined> {
  try {
    const { items } = await getEvents(cluster);
    return lastEnd(field, items ?? []);
  } catch {
    return undefined;
  }
}
