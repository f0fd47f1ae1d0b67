import type { ReactNode } from 'react';
import { Button } from '@mantine/core';
import { ApiError, messageOf } from '../api/client';
import type { Tone } from '../lib/states';
import { sentence } from './Command';
import { ToneIcon } from './StateBadge';

/** A sentence that the user must see, with an optional way out. */
export function Notice({ tone, children, action }: { tone: Tone; children: ReactNode; action?: ReactNode }) {
  return (
    <div className="notice" data-tone={tone} role={tone === 'bad' ? 'alert' : 'status'}>
      <ToneIcon tone={tone} />
      <div className="notice-text">{children}</div>
      {action}
    </div>
  );
}

/** An error in place of what the user wants to see. Another try does not help if it is absent or forbidden. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  if (error instanceof ApiError && (error.status === 403 || error.status === 404)) {
    return <Notice tone="off">{sentence(messageOf(error))}</Notice>;
  }
  const action = retry && (
    <Button size="compact-sm" variant="default" onClick={retry}>
      Try again
    </Button>
  );
  return (
    <Notice tone="bad" action={action}>
      {messageOf(error)}
    </Notice>
  );
}
