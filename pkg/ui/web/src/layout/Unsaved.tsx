import { Button } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';
import { useEffect, useSyncExternalStore } from 'react';
import { Dialog } from '../components/Dialog';

// Parts of the page that hold an edit which leaving would lose.
let edits = 0;
const listeners = new Set<() => void>();

function add(count: number) {
  edits += count;
  listeners.forEach((listener) => listener());
}

/** Tells the page whether a part of it holds an edit that is not written. Leaving the page then asks. */
export function useUnsaved(isUnsaved: boolean) {
  useEffect(() => {
    if (!isUnsaved) return;
    add(1);
    return () => add(-1);
  }, [isUnsaved]);
}

function useHasUnsaved(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    () => edits > 0,
  );
}

/** Asks before a link, the back button, or the end of the window loses an edit. */
export function UnsavedGuard() {
  const hasUnsaved = useHasUnsaved();
  const blocker = useBlocker({
    shouldBlockFn: () => edits > 0,
    enableBeforeUnload: () => edits > 0,
    withResolver: true,
    disabled: !hasUnsaved,
  });
  if (blocker.status !== 'blocked') return null;
  return (
    <Dialog title="Discard your edit?" onClose={blocker.reset}>
      <p>The edit on this page is not written. It is lost when you leave.</p>
      <div className="dialog-bar">
        <Button onClick={blocker.reset}>Stay on the page</Button>
        <Button variant="default" onClick={blocker.proceed}>
          Discard the edit
        </Button>
      </div>
    </Dialog>
  );
}
