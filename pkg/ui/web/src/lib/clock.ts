import { useSyncExternalStore } from 'react';

// One timer for all relative times of the page. It runs only while a component shows one.
const listeners = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void) {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    listeners.forEach((l) => l());
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** A value that depends on the time. The component renders again only when the value changes. */
export function useClock<T extends string | number>(of: (now: number) => T): T {
  return useSyncExternalStore(subscribe, () => of(now));
}
