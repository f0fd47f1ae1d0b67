import { useQuery } from '@tanstack/react-query';
import { getJSON } from '../api/client';
import type { Access } from '../api/types';

/** What the user may do with the clusters of a namespace. It is undefined until the server has answered. */
export function useAccess(namespace: string): Access['clusters'] | undefined {
  const { data } = useQuery({
    queryKey: ['access', namespace],
    queryFn: ({ signal }) => getJSON<Access>(`namespaces/${encodeURIComponent(namespace)}/access`, signal),
    staleTime: 60_000,
    enabled: namespace !== '',
  });
  return data?.clusters;
}
