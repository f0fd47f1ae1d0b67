import type { Cluster } from '../../api/types';
import type { ClusterName } from './ClusterPage';
import { isDeletionOf } from './operate/requests';

/**
 * The row that a page shows: that of the cluster, or its last one while the page holds what the user typed. A cluster
 * that the user has deleted here needs no typed text.
 */
export function rowToShow(
  row: Cluster | undefined,
  last: Cluster | undefined,
  page: ClusterName,
  isHeld: boolean,
): Cluster | undefined {
  if (row) return row;
  const isSame = last?.namespace === page.namespace && last.name === page.name;
  return isSame && isHeld && !isDeletionOf(page) ? last : undefined;
}
