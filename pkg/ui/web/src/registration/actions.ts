import { lazy } from 'react';
import type { ActionGroup } from '../pages/cluster/action';
import { isOfHosts } from './registration';

/** The entry of the menu for clusters of existing hosts. */
export const hosts: ActionGroup = {
  label: 'Hosts',
  actions: [{ label: 'Register a host', dialog: lazy(() => import('./RegisterDialog')), isFor: isOfHosts }],
};
