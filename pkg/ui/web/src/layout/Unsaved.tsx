import { Button } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';
import { Dialog } from '../components/Dialog';
import { hasUnsaved, useHasUnsaved } from '../lib/unsaved';

/** Asks before a link, the back button, or the end of the window loses an edit. */
export function UnsavedGuard() {
  const isNeeded = useHasUnsaved();
  const blocker = useBlocker({
    shouldBlockFn: hasUnsaved,
    enableBeforeUnload: hasUnsaved,
    withResolver: true,
    disabled: !isNeeded,
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
