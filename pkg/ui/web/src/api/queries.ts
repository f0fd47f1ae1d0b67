import { QueryClient, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { useCluster, useMachines } from '../live/hooks';
import { ApiError, getJSON, getText, objectPath } from './client';
import type { Access, Administration, Explanation, ObjectEvent, Plan, Releases, Report, Schema } from './types';

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      retry: (count, error) => count < 3 && isTemporary(error),
      retryDelay: (count, error) =>
        error instanceof ApiError && error.retryAfter ? error.retryAfter * 1000 : Math.min(1000 * 2 ** count, 15_000),
    },
  },
});

/** Reports whether another request soon may succeed. */
export function isTemporary(error: Error) {
  // The user has waited long enough for a silent server.
  if (error instanceof ApiError && error.reason === 'Silent') return false;
  return !(error instanceof ApiError) || error.status === 0 || error.status === 429 || error.status >= 500;
}

const every30s = 30_000;
const every10s = 10_000;

function useClusterAnswer<T>(namespace: string, name: string, what: string, refetchInterval: number) {
  return useQuery({
    queryKey: ['cluster', namespace, name, what],
    queryFn: ({ signal }) => getJSON<T>(objectPath('clusters', namespace, name, what), signal),
    refetchInterval,
  });
}

export const useDiagnosis = (namespace: string, name: string) =>
  useClusterAnswer<Report>(namespace, name, 'diagnose', every30s);

export const useExplanation = (namespace: string, name: string) =>
  useClusterAnswer<Explanation>(namespace, name, 'explain', every30s);

export const useEvents = (namespace: string, name: string) =>
  useClusterAnswer<{ items: ObjectEvent[] | null }>(namespace, name, 'events', every10s);

/** A text about an object: a log, which grows, or a manifest. */
export function useObjectText(
  kind: 'clusters' | 'machines',
  namespace: string,
  name: string,
  what: 'logs' | 'manifest',
  enabled = true,
) {
  return useQuery({
    queryKey: [kind, namespace, name, what],
    queryFn: ({ signal }) => getText(objectPath(kind, namespace, name, what), signal),
    refetchInterval: every10s,
    enabled,
  });
}

export function usePlan(namespace: string, name: string) {
  return useQuery({
    queryKey: ['machine', namespace, name, 'plan'],
    queryFn: ({ signal }) => getJSON<Plan>(objectPath('machines', namespace, name, 'plan'), signal),
    refetchInterval: every10s,
  });
}

export function useAdministration() {
  return useQuery({
    queryKey: ['administration'],
    queryFn: ({ signal }) => getJSON<Administration>('administration', signal),
    refetchInterval: every30s,
  });
}

const rarely = 300_000;

const isNamespace = (text: string) => /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(text);

/** What the user may do with clusters of a namespace. */
export function useAccess(namespace: string) {
  return useQuery({
    queryKey: ['access', namespace],
    queryFn: ({ signal }) => getJSON<Access>(`namespaces/${encodeURIComponent(namespace)}/access`, signal),
    // A form may hold anything.
    enabled: isNamespace(namespace),
    staleTime: 60_000,
  });
}

/** The Kubernetes minors and the networks that the server knows. */
export function useReleases() {
  return useQuery({
    queryKey: ['releases'],
    queryFn: ({ signal }) => getJSON<Releases>('releases', signal),
    staleTime: rarely,
  });
}

/** The OpenAPI schema of a Cluster. */
export function useClusterSchema() {
  return useQuery({
    queryKey: ['schema', 'cluster'],
    queryFn: ({ signal }) => getJSON<Schema>('schemas/cluster', signal),
    staleTime: Infinity,
  });
}

const settle = 1_000;
const shortestPause = 5_000;

/**
 * Asks for the diagnosis and the explanation again when a row of the cluster or of its machines changes. It waits until
 * the rows settle. Both answers are expensive for the server, so they keep a distance of five seconds.
 */
export function useRefetchOnChange(namespace: string, name: string) {
  const client = useQueryClient();
  const cluster = useCluster(namespace, name);
  const machines = useMachines(namespace, name);
  const last = useRef(0);
  useEffect(() => {
    if (last.current === 0) {
      last.current = Date.now(); // the page asks when it opens
      return;
    }
    const wait = Math.max(settle, last.current + shortestPause - Date.now());
    const timer = setTimeout(() => {
      last.current = Date.now();
      for (const what of ['diagnose', 'explain']) {
        void client.invalidateQueries({ queryKey: ['cluster', namespace, name, what] });
      }
    }, wait);
    return () => clearTimeout(timer);
  }, [client, namespace, name, cluster, machines]);
}
