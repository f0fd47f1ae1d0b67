import { Button } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';
import type { ReactNode } from 'react';
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
  return <DiscardQuestion onStay={blocker.reset} onDiscard={blocker.proceed} />;
}

interface QuestionProps {
  onStay: () => void;
  onDiscard: () => void;
  children?: ReactNode;
}

/** Asks whether an edit may be lost. */
export function DiscardQuestion({ onStay, onDiscard, children }: QuestionProps) {
  return (
    <Dialog title="Discard your edit?" onClose={onStay}>
      <p>The edit on this page is not written. It is lost when you leave.</p>
      {children}
      <div className="dialog-bar">
        <Button onClick={onStay}>Stay on the page</Button>
        <Button variant="default" onClick={onDiscard}>
          Discard the edit
        </Button>
      </div>
    </Dialog>
  );
}
