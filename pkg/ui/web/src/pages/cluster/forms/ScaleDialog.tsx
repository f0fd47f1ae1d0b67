import { TextInput } from '@mantine/core';
import { useState } from 'react';
import { ChangeDialog } from '../../../change/ChangeDialog';
import { EditError, poolsOf, scale, type ManifestPool } from '../../../change/edits';
import type { ActionProps } from '../action';

/** Changes the number of machines of pools. */
export default function ScaleDialog({ cluster, onClose }: ActionProps) {
  const [sizes, setSizes] = useState<Record<string, string>>({});
  const makeText = (manifest: string) =>
    Object.entries(sizes).reduce((text, [pool, size]) => scale(text, pool, numberOf(pool, size)), manifest);
  return (
    <ChangeDialog title={`Scale ${cluster.name}`} target={cluster} makeText={makeText} onClose={onClose}>
      {(manifest) =>
        poolsOf(manifest).map((pool) => (
          <TextInput
            key={pool.name}
            type="number"
            min={0}
            label={`Machines of pool ${pool.name}`}
            description={noteOf(pool)}
            disabled={pool.scaled}
            value={sizes[pool.name] ?? String(pool.quantity ?? '')}
            onChange={(event) => setSizes({ ...sizes, [pool.name]: event.currentTarget.value })}
          />
        ))
      }
    </ChangeDialog>
  );
}

function noteOf(pool: ManifestPool): string {
  if (pool.scaled) return 'An autoscaler sizes this pool. Change its limits in the YAML editor.';
  const roles = pool.roles.join(', ');
  if (pool.quantity === undefined) return `${roles}. Another program can size this pool. A number here ends that.`;
  return roles;
}

function numberOf(pool: string, text: string): number {
  if (!/^\d+$/.test(text.trim())) throw new EditError(`Enter the number of machines of pool ${pool}.`);
  return Number(text);
}
