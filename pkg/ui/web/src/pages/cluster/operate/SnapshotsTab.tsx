import { Button } from '@mantine/core';
import { lazy, Suspense, useState } from 'react';
import { useAccess } from '../../../api/queries';
import type { Cluster } from '../../../api/types';
import { sentence } from '../../../components/Command';
import { Failure } from '../../../components/Notice';
import { Since } from '../../../components/Since';
import { ToneIcon } from '../../../components/StateBadge';
import { Placeholder } from '../OverviewTab';
import { obstacleOf } from './kinds';
import { useSnapshots } from './queries';
import { sizeText, toneOfSnapshot } from './snapshots';
import type { Snapshot } from './types';
import './operate.css';

const RestoreDialog = lazy(() => import('./RestoreDialog'));
const OperationDialog = lazy(() => import('./OperationDialog'));

/** The etcd snapshots of a cluster, the newest first. A user can take one, and restore one. */
export default function SnapshotsTab({ cluster }: { cluster: Cluster }) {
  const { data: { clusters: access } = {} } = useAccess(cluster.namespace);
  const mayEdit = access === 'edit';
  const { data, error, refetch } = useSnapshots(cluster);
  const [open, setOpen] = useState<Snapshot | 'take'>();
  const obstacle = obstacleOf(cluster);
  if (!data) return error ? <Failure error={error} retry={refetch} /> : <Placeholder lines={6} />;
  const items = data.items ?? [];
  return (
    <>
      <div className="operate-bar">
        <Button onClick={() => setOpen('take')} disabled={!mayEdit || obstacle !== ''}>
          Take a snapshot
        </Button>
        <span className="dim">{access === 'view' ? 'You may not edit this cluster.' : obstacle}</span>
      </div>
      {items.length === 0 ? (
        <p className="empty">{data.notes?.map(sentence).join(' ') || 'No snapshots are known.'}</p>
      ) : (
        <ul className="card snapshots" aria-label="Snapshots">
          {items.map((snapshot) => (
            <SnapshotLine
              key={snapshot.name}
              snapshot={snapshot}
              restore={mayEdit && cluster.state !== 'Deleting' ? () => setOpen(snapshot) : undefined}
            />
          ))}
        </ul>
      )}
      <Suspense>
        {open === 'take' && <OperationDialog cluster={cluster} name="snapshot" onClose={() => setOpen(undefined)} />}
        {open && open !== 'take' && (
          <RestoreDialog cluster={cluster} snapshot={open} onClose={() => setOpen(undefined)} />
        )}
      </Suspense>
    </>
  );
}

function SnapshotLine({ snapshot, restore }: { snapshot: Snapshot; restore?: () => void }) {
  const { name, file, created, place, version, size, state, message } = snapshot;
  const tone = toneOfSnapshot(snapshot);
  return (
    <li>
      <span className="badge" data-tone={tone}>
        <ToneIcon tone={tone} size={14} />
        {state}
      </span>
      <span className="snapshot-time">
        <Since time={created} suffix=" ago" />
      </span>
      <span className="snapshot-text">
        <b>{name}</b>
        <span className="dim">
          {sentence(place)}
          {file && ` · file ${file}`}
        </span>
        {message && <span>{sentence(message)}</span>}
      </span>
      <span className="dim">{version ?? 'version unknown'}</span>
      <span className="dim snapshot-size">{sizeText(size)}</span>
      {restore && (
        <Button
          size="compact-sm"
          variant="default"
          onClick={restore}
          disabled={state === 'Failed'}
          aria-label={`Restore ${name}`}
        >
          Restore
        </Button>
      )}
    </li>
  );
}
