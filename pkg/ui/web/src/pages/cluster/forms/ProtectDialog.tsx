import { useState } from 'react';
import { ChangeDialog } from '../../../change/ChangeDialog';
import { isProtected, setProtected } from '../../../change/edits';
import type { ActionProps } from '../action';

/** Protects the cluster from deletion, or ends the protection. */
export default function ProtectDialog({ cluster, onClose }: ActionProps) {
  const [chosen, setChosen] = useState<boolean>();
  const makeText = (manifest: string) => setProtected(manifest, chosen ?? isProtected(manifest));
  return (
    <ChangeDialog title={`Protection of ${cluster.name}`} target={cluster} makeText={makeText} onClose={onClose}>
      {(manifest) => (
        <>
          <p className="dim">
            The API server refuses to delete a protected cluster and its objects, for every user. No machine changes.
          </p>
          <label className="check">
            <input
              type="checkbox"
              checked={chosen ?? isProtected(manifest)}
              onChange={(event) => setChosen(event.currentTarget.checked)}
            />
            Protect the cluster from deletion
          </label>
        </>
      )}
    </ChangeDialog>
  );
}
