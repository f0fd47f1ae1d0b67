import { useQuery } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { getJSON, patiently } from '../api/client';
import type { Access, Namespaces } from '../api/types';

const storageKey = 'drover.namespaces';
const listeners = new Set<() => void>();
let chosen: string = localStorage.getItem(storageKey) ?? '';

export function useNamespaces() {
  return useQuery({
    queryKey: ['namespaces'],
    queryFn: ({ signal }) => getJSON<Namespaces>('namespaces', signal),
    staleTime: 60_000,
  });
}

/** The namespaces that a user who may not see all clusters has chosen, with commas. This browser remembers them. */
export function useChosenNamespaces(): string {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    () => chosen,
  );
}

export function chooseNamespaces(names: readonly string[]) {
  chosen = names.join(',');
  localStorage.setItem(storageKey, chosen);
  listeners.forEach((listener) => listener());
}

/** Splits what a user typed into names, without repetition. */
export function parseNames(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))];
}

/** The namespace of a link to a cluster, which another user may have sent. */
export function namespaceOf(path: string): string | undefined {
  return /^\/ui\/clusters\/([^/]+)\/[^/]+/.exec(path)?.[1];
}

/** The names in which the user may not see clusters. It asks one by one, because the server limits requests. */
export async function withoutAccess(names: readonly string[]): Promise<string[]> {
  const denied: string[] = [];
  for (const name of names) {
    const path = `namespaces/${encodeURIComponent(name)}/access`;
    if ((await patiently(() => getJSON<Access>(path))).clusters === 'none') denied.push(name);
  }
  return denied;
}
