import { lazy } from 'react';
import { isProvisioned, type Action, type ActionGroup, type ActionProps } from './action';
import { obstacleOf } from './operate/kinds';
import type { OperationName } from './operate/OperationDialog';

/** An entry that requests an operation. */
function operation(name: OperationName, label: string): Action {
  const dialog = lazy(async () => {
    const { default: OperationDialog } = await import('./operate/OperationDialog');
    return { default: (props: ActionProps) => <OperationDialog {...props} name={name} /> };
  });
  return { label, dialog, isFor: isProvisioned, obstacle: obstacleOf };
}

/** The entries that request operations. Their fields are in spec, so each has a preview. */
export const operations: ActionGroup = {
  label: 'Operate',
  actions: [
    operation('snapshot', 'Take a snapshot'),
    operation('certificates', 'Rotate certificates'),
    operation('keys', 'Rotate encryption keys'),
    operation('agents', 'Upgrade the node agents'),
  ],
};

/** The dialog also says what holds a deletion that has begun. */
export const deletion: ActionGroup = {
  label: 'Delete',
  actions: [{ label: 'Delete the cluster', dialog: lazy(() => import('./operate/DeleteDialog')), danger: true }],
};
