import type { Cluster, PreviewReport } from '../../../api/types';

/** The fields of spec.rkeConfig that request operations. */
export type OperationField =
  | 'etcdSnapshotCreate'
  | 'etcdSnapshotRestore'
  | 'rotateCertificates'
  | 'rotateEncryptionKeys';

export interface OperationKind {
  field: OperationField;
  /** The name of the operation in Events. */
  record: string;
  /** The title with which Drover's messages begin. */
  title: string;
  /** The title for users. */
  label: string;
}

export const operationKinds: readonly OperationKind[] = [
  { field: 'etcdSnapshotCreate', record: 'etcd-snapshot-create', title: 'etcd snapshot', label: 'Snapshot' },
  { field: 'etcdSnapshotRestore', record: 'etcd-restore', title: 'etcd restore', label: 'Restore' },
  {
    field: 'rotateCertificates',
    record: 'rotate-certificates',
    title: 'certificate rotation',
    label: 'Rotation of certificates',
  },
  {
    field: 'rotateEncryptionKeys',
    record: 'rotate-encryption-keys',
    title: 'encryption key rotation',
    label: 'Rotation of encryption keys',
  },
];

export const kindOf = (field: OperationField): OperationKind => operationKinds.find((kind) => kind.field === field)!;

/** The operation that runs, or that has just failed. */
export interface Running {
  kind: OperationKind;
  failed: boolean;
  /** What it does now, or why it failed. */
  step: string;
}

/** The operation in the message of a cluster. Drover runs one operation at a time. */
export function runningIn({ state, message = '' }: Pick<Cluster, 'state' | 'message'>): Running | undefined {
  if (state === 'Deleting') return undefined;
  for (const kind of operationKinds) {
    const failure = `${kind.title} failed: `;
    if (message.startsWith(failure)) return { kind, failed: true, step: message.slice(failure.length) };
    const running = `${kind.title}: `;
    if (message.startsWith(running)) return { kind, failed: false, step: message.slice(running.length) };
  }
  return undefined;
}

/** Why no operation can be requested now. It is empty if one can. */
export function obstacleOf(cluster: Pick<Cluster, 'state' | 'message' | 'imported'>): string {
  if (cluster.imported) return 'Drover did not create this cluster, and runs no operations on it.';
  if (cluster.state === 'Deleting') return 'The cluster is being deleted.';
  const running = runningIn(cluster);
  return running && !running.failed ? `The ${running.kind.title} must end first.` : '';
}

/** Why a request makes no sense, from its preview. It is undefined if the operation can begin now or later. */
export function refusalOf(kind: OperationKind, { operations = [] }: Pick<PreviewReport, 'operations'>) {
  const found = operations.find(({ field }) => field === `spec.rkeConfig.${kind.field}`);
  if (!found)
    return (
      `Drover would not begin this ${kind.title}, because it has begun one with this generation before. ` +
      `Set a larger generation in spec.rkeConfig.${kind.field} on the tab YAML.`
    );
  const why = found.problem ?? found.stuck;
  return why && `The ${kind.title} would fail: ${why}`;
}
