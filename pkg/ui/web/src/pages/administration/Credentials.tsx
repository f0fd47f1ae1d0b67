import { Button } from '@mantine/core';
import { lazy, Suspense, useState } from 'react';
import type { Administration } from '../../api/types';
import { ClusterLink, PartTable } from './parts';

const CredentialDialog = lazy(() => import('../../credentials/CredentialDialog'));

type Credential = NonNullable<Administration['credentials']['items']>[number];

/** The names of the cloud credentials. A dialog makes one or replaces its values, which the page never shows. */
export function Credentials({ part }: { part: Administration['credentials'] }) {
  const [open, setOpen] = useState<'new' | Credential>();
  return (
    <>
      <PartTable
        title="Cloud credentials"
        note="Names only"
        action={
          <Button size="compact-sm" variant="default" onClick={() => setOpen('new')}>
            New credential
          </Button>
        }
        part={part}
        empty="No cloud credential exists."
        columns={[
          {
            title: 'Credential',
            cell: (c) => (
              <>
                <b>{c.displayName || c.name}</b>
                <div className="dim">
                  {c.namespace}/{c.name}
                </div>
              </>
            ),
          },
          { title: 'Driver', cell: (c) => c.driver },
          { title: 'Used by', cell: (c) => <UsedBy clusters={c.usedBy} /> },
          {
            title: 'Values',
            cell: (c) => (
              <Button
                size="compact-sm"
                variant="default"
                onClick={() => setOpen(c)}
                aria-label={`Replace the values of ${c.displayName || c.name}`}
              >
                Replace
              </Button>
            ),
          },
        ]}
      />
      {open && (
        <Suspense>
          {open === 'new' ? (
            <CredentialDialog onClose={() => setOpen(undefined)} />
          ) : (
            <CredentialDialog replace={open} driver={open.driver} onClose={() => setOpen(undefined)} />
          )}
        </Suspense>
      )}
    </>
  );
}

function UsedBy({ clusters }: { clusters: string[] | null }) {
  if (!clusters?.length) return <span className="dim">no cluster</span>;
  return (
    <ul>
      {clusters.map((name) => (
        <li key={name}>
          <ClusterLink name={name} />
        </li>
      ))}
    </ul>
  );
}
