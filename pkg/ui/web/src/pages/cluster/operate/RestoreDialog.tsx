import { Radio, RadioGroup } from '@mantine/core';
import { useState } from 'react';
import type { Cluster } from '../../../api/types';
import { ChangeDialog } from '../../../change/ChangeDialog';
import { bump } from '../../../change/edits';
import { sentence } from '../../../components/Command';
import { Failure, Notice } from '../../../components/Notice';
import { Placeholder } from '../OverviewTab';
import { kindOf, refusalOf } from './kinds';
import { useFollowing } from './OperationDialog';
import { needed } from './needed';
import { useBriefing } from './queries';
import { missingFor, restoreModes, type RestoreMode } from './snapshots';
import type { Briefing, Snapshot } from './types';
import './operate.css';

interface Props {
  cluster: Cluster;
  snapshot: Snapshot;
  onClose: () => void;
}

const labels: Record<RestoreMode, { label: string; description: string }> = {
  none: { label: 'Data only', description: 'The spec of the cluster stays as it is.' },
  kubernetesVersion: {
    label: 'Data and Kubernetes version',
    description: 'spec.kubernetesVersion goes back to the value in the snapshot.',
  },
  all: {
    label: 'Data and configuration',
    description: 'The version and the configuration go back, but not the machine pools.',
  },
};

/** Says what a restore gives up, shows its effect, and asks for the name of the cluster. */
export default function RestoreDialog({ cluster, snapshot, onClose }: Props) {
  const [mode, setMode] = useState<RestoreMode>('none');
  const briefing = useBriefing(cluster, snapshot.name, mode);
  const requested = useFollowing(cluster, 'etcdSnapshotRestore');
  const refused = briefing.data?.refused;
  return (
    <ChangeDialog
      title={`Restore ${cluster.name}`}
      target={{ namespace: cluster.namespace, name: cluster.name }}
      makeText={(manifest) => {
        if (refused) throw new Error(refused);
        const { generation } = needed(briefing, 'Reading what the restore would do …');
        const config = mode === 'none' ? {} : { restoreRKEConfig: mode };
        return bump(manifest, 'etcdSnapshotRestore', { name: snapshot.name, ...config }, generation);
      }}
      confirm={cluster.name}
      applyLabel="Restore the snapshot"
      refuse={({ report }) => (report ? refusalOf(kindOf('etcdSnapshotRestore'), report) : undefined)}
      onClose={onClose}
      onApplied={requested}
    >
      <div className="operate-form">
        <Notice tone="warn">
          Everything that was written to the API of the cluster since the snapshot is lost. All machines stop at once,
          and start again with the data of the snapshot.
        </Notice>
        <RadioGroup label="What goes back" value={mode} onChange={(value) => setMode(value as RestoreMode)}>
          {restoreModes.map((each) => (
            <Radio
              key={each}
              mt="xs"
              value={each}
              label={labels[each].label}
              description={missingFor(each, snapshot) || labels[each].description}
              disabled={missingFor(each, snapshot) !== ''}
            />
          ))}
        </RadioGroup>
        {briefing.error && !briefing.data && <Failure error={briefing.error} retry={briefing.refetch} />}
        {briefing.isPending && <Placeholder lines={6} />}
        {briefing.data && <BriefingText briefing={briefing.data} />}
      </div>
    </ChangeDialog>
  );
}

/** The dialog itself says what every restore does. */
const isNews = ({ label }: Briefing['lines'][number]) => label !== 'Effect';

function BriefingText({ briefing }: { briefing: Briefing }) {
  const restored = briefing.restored ?? [];
  return (
    <section aria-label="Briefing" className="operate-form">
      <dl className="facts">
        {briefing.lines.filter(isNews).map(({ label, text }, i) => (
          <div key={i} className="fact">
            <dt>{label.replace(/:$/, '')}</dt>
            <dd>{sentence(text)}</dd>
          </div>
        ))}
      </dl>
      {restored.length > 0 && (
        <div>
          <h3>Fields that go back</h3>
          <ul className="restored">
            {restored.map(({ field, old, new: next }) => (
              <li key={field}>
                <b>{field}</b>: <code>{old || 'unset'}</code> becomes <code>{next || 'unset'}</code>
              </li>
            ))}
          </ul>
        </div>
      )}
    </section>
  );
}
