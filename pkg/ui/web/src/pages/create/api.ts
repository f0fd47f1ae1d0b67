import { keepPreviousData, useQuery } from '@tanstack/react-query';
import type { Problem } from '../../api/types';
import { askJSON } from '../../change/api';
import { useSettled } from '../../lib/settled';
import type { Drivers, ManifestRequest } from './types';

const minute = 60_000;

/** The active node drivers. */
export function useDrivers() {
  return useQuery({
    queryKey: ['drivers'],
    queryFn: ({ signal }) => askJSON<Drivers>('drivers', { signal }),
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
    queryFn: ({ signal }) => {
      const headers = { 'Content-Type': 'application/json' };
      return askJSON<MadeManifest>('manifests', { method: 'POST', body: settled, headers, signal });
    },
    enabled,
    staleTime: minute,
    gcTime: minute,
    placeholderData: keepPreviousData,
  });
  return { ...query, current: settled === body && query.isSuccess && !query.isPlaceholderData };
}
