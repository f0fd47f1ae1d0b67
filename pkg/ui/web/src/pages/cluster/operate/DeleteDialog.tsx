import { Button } from '@mantine/core';
import { useRef, useState } from 'react';
import { ApiError, messageOf } from '../../../api/client';
import type { Cluster } from '../../../api/types';
import { ChangeDialog, Confirmation } from '../../../change/ChangeDialog';
import { isUnknown } from '../../../change/api';
import { isProtected, setProtected } from '../../../change/edits';
import { sentence } from '../../../components/Command';
import { Dialog } from '../../../components/Dialog';
import { Failure, Notice } from '../../../components/Notice';
import { announce } from '../../../lib/announce';
import { useUnsaved } from '../../../lib/unsaved';
import { Placeholder } from '../OverviewTab';
import { isConfirmed } from './needed';
import { deleteCluster, useRemoval } from './queries';
import { forgetDeletion, noteDeletion } from './requests';
import type { Removal } from './types';
import './operate.css';

interface Props {
  cluster: Cluster;
  onClose: () => void;
}

/** Says what a deletion removes, what stays and what holds it, asks for the name of the cluster, and deletes once. */
export default function DeleteDialog({ cluster, onClose }: Props) {
  const [unprotecting, setUnprotecting] = useState(false);
  const removal = useRemoval(cluster);
  if (unprotecting)
    return (
      <ChangeDialog
        title={`End the protection of ${cluster.name}`}
        target={{ namespace: cluster.namespace, name: cluster.name }}
        makeText={(manifest) => setProtected(manifest, false)}
        applyLabel="End the protection"
        onClose={() => {
          setUnprotecting(false);
          void removal.refetch();
        }}
      >
        {(manifest) => (
          <p>
            {isProtected(manifest)
              ? 'The protection prevents the deletion of the cluster and its objects. Its end changes no machine.'
              : 'The cluster is not protected. Close this dialog to continue with the deletion.'}
          </p>
        )}
      </ChangeDialog>
    );
  return <Deletion cluster={cluster} removal={removal} onClose={onClose} onUnprotect={() => setUnprotecting(true)} />;
}

interface DeletionProps extends Props {
  removal: ReturnType<typeof useRemoval>;
  onUnprotect: () => void;
}

function Deletion({ cluster, removal, onClose, onUnprotect }: DeletionProps) {
  const { data, error, refetch, isFetching } = removal;
  const deletion = useDeletion(cluster, onClose);
  const [typed, setTyped] = useState('');
  useUnsaved(deletion.busy || typed !== '');
  const isPossible = data && !data.refused && !data.deleting;
  // Only a successful look allows another deletion.
  const lookAgain = async () => {
    if ((await refetch()).isSuccess) deletion.forget();
  };
  return (
    <Dialog title={`Delete ${cluster.name}`} onClose={onClose} busy={deletion.busy}>
      {error && <Failure error={error} retry={() => void lookAgain()} />}
      {!data && !error && <Placeholder lines={6} />}
      {data && <RemovalText removal={data} onUnprotect={onUnprotect} />}
      {isPossible && <Confirmation confirm={cluster.name} typed={typed} onType={setTyped} disabled={deletion.busy} />}
      {deletion.error !== undefined && <DeletionError error={deletion.error} />}
      <div className="operate-end">
        {deletion.error !== undefined || error || data?.deleting ? (
          <Button variant="default" onClick={() => void lookAgain()} loading={isFetching}>
            Look again
          </Button>
        ) : null}
        <Button variant="default" onClick={onClose} disabled={deletion.busy}>
          {isPossible ? 'Keep the cluster' : 'Close'}
        </Button>
        {isPossible && (
          <Button
            color="red"
            loading={deletion.busy}
            disabled={
              !isConfirmed({ typed, name: cluster.name, isFetching, lookError: error, deletionError: deletion.error })
            }
            onClick={() => void deletion.run(data.seen)}
          >
            Delete the cluster
          </Button>
        )}
      </div>
    </Dialog>
  );
}

/** One request for each look of the user at the cluster. After an error the user looks again. */
function useDeletion(cluster: Cluster, onBegun: () => void) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const sent = useRef(false);
  const run = async (seen: string) => {
    if (sent.current) return;
    sent.current = true;
    setBusy(true);
    noteDeletion(cluster);
    try {
      await deleteCluster(cluster, seen);
      announce(`The deletion of cluster ${cluster.name} has begun.`);
      onBegun();
    } catch (reason) {
      if (!isUnknown(reason)) forgetDeletion(cluster);
      setError(reason);
      setBusy(false);
    }
  };
  const forget = () => {
    sent.current = false;
    setError(undefined);
  };
  return { busy, error, run, forget };
}

function DeletionError({ error }: { error: unknown }) {
  if (error instanceof ApiError && error.status === 412)
    return (
      <Notice tone="warn">
        The cluster has changed since you opened this dialog. Nothing was deleted. Look again at what goes and what
        stays.
      </Notice>
    );
  const message = sentence(messageOf(error));
  if (isUnknown(error))
    return (
      <Notice tone="bad">
        {message} The deletion may have begun. Drover does not send it again. Look again at the cluster.
      </Notice>
    );
  return <Notice tone="bad">{message} Nothing was deleted.</Notice>;
}

const hosts: Record<string, string> = {
  Removed: 'the driver removes the host',
  Cleaned: 'the agent removes Kubernetes and its data from the host',
  Stays: 'the host keeps everything, and Kubernetes continues to run there',
};

function RemovalText({ removal, onUnprotect }: { removal: Removal; onUnprotect: () => void }) {
  const { refused, deleting, notes } = removal;
  const machines = removal.machines ?? [];
  return (
    <div className="operate-form">
      {deleting && <Notice tone="off">The cluster is already being deleted.</Notice>}
      {refused && (
        <Notice
          tone="bad"
          action={
            // The annotation is the only reason for which a cluster refuses.
            /protect/.test(refused) && (
              <Button size="compact-sm" variant="default" onClick={onUnprotect}>
                End the protection
              </Button>
            )
          }
        >
          {sentence(refused)}
        </Notice>
      )}
      {!refused && !deleting && <p>A deletion cannot be undone.</p>}
      <Lines title="Machines" lines={machines.map(({ name, host }) => `${name}: ${hosts[host] ?? host}`)} />
      <Lines title="Also goes" lines={removal.goes} />
      <Lines title="Stays" lines={removal.stays} />
      {!!removal.blocks?.length && (
        <Notice tone="warn">
          <Lines title="Holds the deletion" lines={removal.blocks} />
        </Notice>
      )}
      {notes?.map((note) => (
        <p key={note} className="dim">
          {sentence(note)}
        </p>
      ))}
    </div>
  );
}

/** Longer lists are folded, so that the confirmation stays in sight. */
const longest = 12;

function Lines({ title, lines }: { title: string; lines?: string[] | null }) {
  if (!lines?.length) return null;
  const list = (
    <ul>
      {lines.map((line) => (
        <li key={line}>{sentence(line)}</li>
      ))}
    </ul>
  );
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      {lines.length > longest ? (
        <details>
          <summary>{lines.length} in all</summary>
          {list}
        </details>
      ) : (
        list
      )}
    </section>
  );
}
