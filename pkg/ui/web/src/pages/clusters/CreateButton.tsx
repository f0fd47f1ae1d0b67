import { Button } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getJSON } from '../../api/client';
import type { Access } from '../../api/types';
import { useClusters } from '../../live/hooks';
import { useChosenNamespaces, useNamespaces } from '../../session/namespaces';
import { placesToCreate } from './rows';

/** Leads to the page that creates a cluster, for users who may change clusters somewhere. */
export function CreateButton({ namespace }: { namespace?: string }) {
  const { data } = useNamespaces();
  const chosen = useChosenNamespaces();
  const clusters = useClusters();
  const places = placesToCreate(namespace, data?.all ? '' : chosen, clusters);
  const { data: place } = useQuery({
    queryKey: ['where to create', ...places],
    queryFn: ({ signal }) => firstEditable(places, signal),
    enabled: data !== undefined,
    staleTime: 60_000,
    placeholderData: keepPreviousData,
  });
  if (!place) return null;
  return (
    <Button
      className="create-button"
      renderRoot={(props) => <Link {...props} to="/create" search={{ namespace: place }} />}
    >
      Create
    </Button>
  );
}

/** The first namespace in which the user may change clusters, or ''. It asks one by one: the server limits requests. */
async function firstEditable(places: readonly string[], signal: AbortSignal): Promise<string> {
  for (const place of places) {
    const access = await getJSON<Access>(`namespaces/${encodeURIComponent(place)}/access`, signal);
    if (access.clusters === 'edit') return place;
  }
  return '';
}
