import { Menu } from '@mantine/core';
import { lazy, Suspense } from 'react';
import type { Cluster } from '../../api/types';
import type { OperationName } from './operate/OperationDialog';
import { obstacleOf } from './operate/kinds';

const OperationDialog = lazy(() => import('./operate/OperationDialog'));
const DeleteDialog = lazy(() => import('./operate/DeleteDialog'));

/** The entries of the menu that request operations. */
export type Entry = OperationName | 'delete';

const entries: { name: OperationName; label: string }[] = [
  { name: 'snapshot', label: 'Take a snapshot' },
  { name: 'certificates', label: 'Rotate certificates' },
  { name: 'keys', label: 'Rotate encryption keys' },
  { name: 'agents', label: 'Upgrade the node agents' },
];

/** The entries of the menu of a cluster that request operations, and its deletion. */
export function OperationItems({ cluster, open }: { cluster: Cluster; open: (entry: Entry) => void }) {
  const obstacle = obstacleOf(cluster);
  return (
    <>
      <Menu.Label>{obstacle || 'Operations'}</Menu.Label>
      {!cluster.imported &&
        entries.map(({ name, label }) => (
          <Menu.Item key={name} disabled={obstacle !== ''} onClick={() => open(name)}>
            {label}
          </Menu.Item>
        ))}
      <Menu.Divider />
      <Menu.Item color="red" disabled={cluster.state === 'Deleting'} onClick={() => open('delete')}>
        Delete the cluster
      </Menu.Item>
    </>
  );
}

/** The dialog of an entry. */
export function EntryDialog({ cluster, entry, onClose }: { cluster: Cluster; entry: Entry; onClose: () => void }) {
  return (
    <Suspense>
      {entry === 'delete' ? (
        <DeleteDialog cluster={cluster} onClose={onClose} />
      ) : (
        <OperationDialog cluster={cluster} name={entry} onClose={onClose} />
      )}
    </Suspense>
  );
}
