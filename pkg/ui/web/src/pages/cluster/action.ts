import type { ComponentType } from 'react';
import type { Cluster } from '../../api/types';

/** What every dialog of the menu gets. The dialog is open while it is mounted. */
export interface ActionProps {
  cluster: Cluster;
  onClose: () => void;
}

/** An entry of the menu "Actions". Its dialog loads when it opens. */
export interface Action {
  label: string;
  dialog: ComponentType<ActionProps>;
  /** Entries without it are for every cluster. */
  isFor?: (cluster: Cluster) => boolean;
  /** Says why the action is impossible now. It is empty if it is possible. */
  obstacle?: (cluster: Cluster) => string;
  /** The action deletes something. */
  danger?: boolean;
}

/** Entries that belong together. */
export interface ActionGroup {
  label: string;
  actions: Action[];
}

export const hasPools = (cluster: Cluster) => !cluster.imported && !!cluster.pools?.length;
export const isProvisioned = (cluster: Cluster) => !cluster.imported;
