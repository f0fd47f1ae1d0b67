import { useRef } from 'react';
import type { Cluster } from '../../../api/types';
import { ChangeDialog } from '../../../change/ChangeDialog';
import { bump, bumpAgents } from '../../../change/edits';
import { sentence } from '../../../components/Command';
import { Failure, Notice } from '../../../components/Notice';
import { kindOf, refusalOf, type OperationField } from './kinds';
import { needed } from './needed';
import { endBefore, useOperations } from './queries';
import { follow } from './requests';
import { agentsIn, type End } from './follow';

interface Text {
  title: string;
  apply: string;
  field?: OperationField;
  what: string[];
}

/** What each operation does, as the commands of drover say it. */
const texts = {
  snapshot: {
    title: 'Take a snapshot',
    apply: 'Take the snapshot',
    field: 'etcdSnapshotCreate',
    what: [
      'Each machine with etcd takes a snapshot of it now. Nothing restarts.',
      'If spec.rkeConfig.etcd.s3 is set, the snapshot also goes to S3.',
      'While the cluster is not up, the request waits.',
    ],
  },
  certificates: {
    title: 'Rotate certificates',
    apply: 'Rotate certificates',
    field: 'rotateCertificates',
    what: [
      'All services of the cluster get new certificates.',
      'Machines restart one after the other, those with etcd first. Each machine with etcd restarts only after it ' +
        'has verified that etcd is healthy.',
    ],
  },
  keys: {
    title: 'Rotate encryption keys',
    apply: 'Rotate encryption keys',
    field: 'rotateEncryptionKeys',
    what: [
      'The cluster creates a new key and writes all Secrets again with it. Servers restart one after the other, ' +
        'three times.',
      'Take a snapshot first. You need it if the rotation stops halfway.',
    ],
  },
  agents: {
    title: 'Upgrade the node agents',
    apply: 'Upgrade the agents',
    what: [
      'The agents on the nodes become those of the server, with its present address and authority. Kubernetes does ' +
        'not restart.',
      'Drover begins with one machine and continues with a tenth of the machines at a time. It stops when an agent ' +
        'does not report. That node goes back to its former agent.',
    ],
  },
} satisfies Record<string, Text>;

export type OperationName = keyof typeof texts;

interface Props {
  cluster: Cluster;
  name: OperationName;
  onClose: () => void;
}

/** Explains an operation, shows what it does to each machine, and requests it. */
export default function OperationDialog({ cluster, name, onClose }: Props) {
  const { title, apply, field, what }: Text = texts[name];
  const requested = useFollowing(cluster, field);
  const earlier = useOperations(cluster, field !== undefined);
  const state = earlier.data?.items?.find((each) => each.field === field);
  const makeText = (manifest: string) => {
    if (!field) return bumpAgents(manifest);
    if (state?.refused) throw new Error(state.refused);
    // The generation must not change between preview and write, so it is known first.
    needed(earlier, 'Reading the earlier requests …');
    return bump(manifest, field, {}, state?.generation);
  };
  return (
    <ChangeDialog
      title={title}
      target={{ namespace: cluster.namespace, name: cluster.name }}
      makeText={makeText}
      applyLabel={apply}
      refuse={({ report }) => (field && report ? refusalOf(kindOf(field), report) : undefined)}
      onClose={onClose}
      onApplied={requested}
    >
      <div className="operate-form">
        {what.map((line) => (
          <p key={line}>{line}</p>
        ))}
        {earlier.error && !earlier.data && <Failure error={earlier.error} retry={() => void earlier.refetch()} />}
        {state?.notes?.map((note) => (
          <Notice key={note} tone="off">
            {sentence(note)}
          </Notice>
        ))}
      </div>
    </ChangeDialog>
  );
}

/** Reads how the last operation ended before the user requests another one, and follows the new one. */
export function useFollowing(cluster: Cluster, field: OperationField | undefined) {
  const before = useRef<Promise<End | undefined>>(undefined);
  if (field) before.current ??= endBefore(cluster, field);
  const agents = useRef(agentsIn(cluster.conditions)?.since);
  return (written: string[]) => {
    if (written.length === 0) return;
    if (!field) follow(cluster, { field, before: agents.current });
    else void before.current?.then((end) => follow(cluster, { field, before: end }));
  };
}
