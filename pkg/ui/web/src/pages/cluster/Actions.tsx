import { Button, Menu } from '@mantine/core';
import { Fragment, lazy, Suspense, useState } from 'react';
import { useAccess } from '../../api/queries';
import type { Cluster } from '../../api/types';
import { Icon } from '../../components/Icon';
import { hasPools, isProvisioned, type Action, type ActionGroup } from './action';

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
          {groups.map(({ label, actions }) => (
            <Fragment key={label}>
              <Menu.Label>{label}</Menu.Label>
              {actions
                .filter(({ isFor }) => isFor?.(cluster) ?? true)
                .map((action) => (
                  <Menu.Item
                    key={action.label}
                    color={action.danger ? 'red' : undefined}
                    disabled={!mayEdit}
                    onClick={() => setOpen(action)}
                  >
                    {action.label}
                  </Menu.Item>
                ))}
            </Fragment>
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
