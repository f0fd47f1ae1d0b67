import { Button, Menu } from '@mantine/core';
import { lazy, Suspense, useState } from 'react';
import { useAccess } from '../../api/queries';
import type { Cluster } from '../../api/types';
import { Icon } from '../../components/Icon';
import { hosts } from '../../registration/actions';
import { hasPools, isProvisioned, type Action, type ActionGroup } from './action';
import { deletion, operations } from './operations';

const groups: ActionGroup[] = [
  {
    label: 'Change',
    actions: [
      { label: 'Scale', dialog: lazy(() => import('./forms/ScaleDialog')), isFor: hasPools },
      { label: 'Kubernetes version', dialog: lazy(() => import('./forms/VersionDialog')), isFor: isProvisioned },
      { label: 'Pause or resume pools', dialog: lazy(() => import('./forms/PauseDialog')), isFor: hasPools },
      { label: 'Protection from deletion', dialog: lazy(() => import('./forms/ProtectDialog')) },
      { label: 'Labels', dialog: lazy(() => import('./forms/LabelsDialog')) },
    ],
  },
  hosts,
  operations,
  deletion,
];

/** The menu with everything that changes the cluster. */
export function Actions({ cluster }: { cluster: Cluster }) {
  const { data: access } = useAccess(cluster.namespace);
  const [open, setOpen] = useState<Action>();
  const mayEdit = access?.clusters === 'edit';
  const Dialog = open?.dialog;
  return (
    <>
      <Menu position="bottom-end" width={240}>
        <Menu.Target>
          <Button variant="default" data-dialog-opener rightSection={<Icon name="down" size={12} />}>
            Actions
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {access && !mayEdit && <Menu.Label>You may not change clusters in {cluster.namespace}.</Menu.Label>}
          {groups.map((group) => (
            <Entries key={group.label} group={group} cluster={cluster} mayEdit={mayEdit} onOpen={setOpen} />
          ))}
        </Menu.Dropdown>
      </Menu>
      {Dialog && (
        <Suspense>
          <Dialog cluster={cluster} onClose={() => setOpen(undefined)} />
        </Suspense>
      )}
    </>
  );
}

interface EntriesProps {
  group: ActionGroup;
  cluster: Cluster;
  mayEdit: boolean;
  onOpen: (action: Action) => void;
}

/** The entries of a group that are for this cluster. The reason why they are impossible stands above them. */
function Entries({ group, cluster, mayEdit, onOpen }: EntriesProps) {
  const actions = group.actions.filter(({ isFor }) => isFor?.(cluster) ?? true);
  if (actions.length === 0) return null;
  const obstacles = [...new Set(actions.map(({ obstacle }) => obstacle?.(cluster) ?? ''))].filter(Boolean);
  return (
    <>
      <Menu.Label>{[group.label, ...obstacles].join(': ')}</Menu.Label>
      {actions.map((action) => (
        <Menu.Item
          key={action.label}
          color={action.danger ? 'red' : undefined}
          disabled={!mayEdit || !!action.obstacle?.(cluster)}
          onClick={() => onOpen(action)}
        >
          {action.label}
        </Menu.Item>
      ))}
    </>
  );
}
