import { useState } from 'react';
import { ChangeDialog } from '../../../change/ChangeDialog';
import { poolsOf, setPaused } from '../../../change/edits';
import type { ActionProps } from '../action';

/** Pauses pools of machines, or resumes them. */
export default function PauseDialog({ cluster, onClose }: ActionProps) {
  const [chosen, setChosen] = useState<Record<string, boolean>>({});
  const makeText = (manifest: string) =>
    Object.entries(chosen).reduce((text, [pool, paused]) => setPaused(text, pool, paused), manifest);
  return (
    <ChangeDialog
      title={`Pause or resume pools of ${cluster.name}`}
      target={cluster}
      makeText={makeText}
      onClose={onClose}
    >
      {(manifest) => (
        <>
          <p className="dim">
            Drover replaces no machine of a paused pool and changes no configuration on it. A change of the cluster
            takes effect there when the pause ends.
          </p>
          {poolsOf(manifest).map((pool) => (
            <label key={pool.name} className="check">
              <input
                type="checkbox"
                checked={chosen[pool.name] ?? pool.paused}
                onChange={(event) => setChosen({ ...chosen, [pool.name]: event.currentTarget.checked })}
              />
              Pause pool {pool.name}
            </label>
          ))}
        </>
      )}
    </ChangeDialog>
  );
}
