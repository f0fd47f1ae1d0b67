import { useSyncExternalStore } from 'react';

let text = '';
const listeners = new Set<() => void>();

/** Lets screen readers say a short sentence. */
export function announce(next: string) {
  text = next;
  listeners.forEach((listener) => listener());
}

export function useAnnouncement(): string {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    () => text,
  );
}
