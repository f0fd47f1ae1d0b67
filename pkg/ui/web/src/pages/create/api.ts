import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getJSON, request } from '../../api/client';
import type { Access, Problem } from '../../api/types';
import { useSettled } from '../../lib/settled';
import type { Drivers, ManifestRequest, Releases } from './types';

const minute = 60_000;

/** The active node drivers. */
export function useDrivers() {
  return useQuery({
    queryKey: ['drivers'],
    queryFn: ({ signal }) => getJSON<Drivers>('drivers', signal),
    staleTime: minute,
  });
}

export function useReleases() {
  return useQuery({
    queryKey: ['releases'],
    queryFn: ({ signal }) => getJSON<Releases>('releases', signal),
    staleTime: 10 * minute,
  });
}

/** What the user may do with clusters in a namespace. A half-typed name is a request that nobody needs. */
export function useAccess(namespace: string) {
  const settled = useSettled(namespace);
  return useQuery({
    queryKey: ['access', settled],
    queryFn: ({ signal }) => getJSON<Access>(`namespaces/${encodeURIComponent(settled)}/access`, signal),
    enabled: /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(settled),
    staleTime: minute,
  });
}

export interface MadeManifest {
  manifest: string;
  problems?: Problem[];
}

/** The manifest of a form. Between two answers it keeps the earlier one, and "current" is false. */
export function useManifest(values: ManifestRequest, enabled: boolean) {
  const body = JSON.stringify(values);
  const settled = useSettled(body);
  const query = useQuery({
    queryKey: ['new manifest', settled],
    queryFn: async ({ signal }) => {
      const headers = { 'Content-Type': 'application/json' };
      const response = await request('manifests', { method: 'POST', body: settled, headers, signal });
      return (await response.json()) as MadeManifest;
    },
    enabled,
    staleTime: minute,
    gcTime: minute,
    placeholderData: keepPreviousData,
  });
  return { ...query, current: settled === body && query.isSuccess && !query.isPlaceholderData };
}
