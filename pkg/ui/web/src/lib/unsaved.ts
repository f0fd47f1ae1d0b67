import { useEffect, useSyncExternalStore } from 'react';

// Parts of the page that hold an edit which leaving would lose.
let edits = 0;
const listeners = new Set<() => void>();

function set(count: number) {
  edits = count;
  listeners.forEach((listener) => listener());
}

/** Tells the page whether a part of it holds an edit that is not written. Leaving the page then asks. */
export function useUnsaved(isUnsaved: boolean) {
  useEffect(() => {
    if (!isUnsaved) return;
    set(edits + 1);
    return () => set(Math.max(0, edits - 1));
  }, [isUnsaved]);
}

export const hasUnsaved = () => edits > 0;

/** Lets the page go without a question, because it belongs to another user now. */
export const forgetUnsaved = () => set(0);

export function useHasUnsaved(): boolean {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, hasUnsaved);
}
