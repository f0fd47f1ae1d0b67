import { ActionIcon, Button, TextInput } from '@mantine/core';
import { useState } from 'react';
import { ChangeDialog } from '../../../change/ChangeDialog';
import { EditError, labelsOf, setLabels } from '../../../change/edits';
import { Icon } from '../../../components/Icon';
import type { ActionProps } from '../action';

type Label = [key: string, value: string];

/** What the user wants, and the labels of the manifest in which the user made the first change. */
interface Edit {
  labels: Label[];
  begun: Label[];
}

const beginWith = (labels: Label[]): Edit => ({ labels, begun: labels });

/** Changes the labels of the Cluster. */
export default function LabelsDialog({ cluster, onClose }: ActionProps) {
  const [edit, setEdit] = useState<Edit>();
  const makeText = (manifest: string) =>
    edit ? setLabels(manifest, recordOf(edit.labels), Object.fromEntries(edit.begun)) : manifest;
  return (
    <ChangeDialog title={`Labels of ${cluster.name}`} target={cluster} makeText={makeText} onClose={onClose}>
      {(manifest) => {
        const { labels, begun } = edit ?? beginWith(Object.entries(labelsOf(manifest)));
        return <Labels labels={labels} onChange={(next) => setEdit({ labels: next, begun })} />;
      }}
    </ChangeDialog>
  );
}

function Labels({ labels, onChange }: { labels: Label[]; onChange: (labels: Label[]) => void }) {
  const set = (at: number, label: Label) => onChange(labels.map((old, i) => (i === at ? label : old)));
  return (
    <>
      {labels.length === 0 && <p className="dim">The cluster has no labels.</p>}
      {labels.map(([key, value], i) => (
        <div key={i} className="label-row">
          <TextInput
            aria-label={`Key of label ${i + 1}`}
            placeholder="key"
            value={key}
            onChange={(event) => set(i, [event.currentTarget.value, value])}
            autoComplete="off"
            spellCheck={false}
          />
          <TextInput
            aria-label={`Value of label ${i + 1}`}
            placeholder="value"
            value={value}
            onChange={(event) => set(i, [key, event.currentTarget.value])}
            autoComplete="off"
            spellCheck={false}
          />
          <ActionIcon
            variant="subtle"
            color="gray"
            size="lg"
            onClick={() => onChange(labels.filter((_, at) => at !== i))}
            aria-label={`Remove label ${key || i + 1}`}
            title="Remove"
          >
            <Icon name="close" />
          </ActionIcon>
        </div>
      ))}
      <div>
        <Button variant="default" size="compact-sm" onClick={() => onChange([...labels, ['', '']])}>
          Add a label
        </Button>
      </div>
    </>
  );
}

function recordOf(labels: Label[]): Record<string, string> {
  const keys = labels.map(([key]) => key.trim());
  if (keys.includes('')) throw new EditError('Each label needs a key.');
  const twice = keys.find((key, i) => keys.indexOf(key) !== i);
  if (twice) throw new EditError(`Two labels have the key ${twice}.`);
  return Object.fromEntries(labels.map(([key, value]) => [key.trim(), value.trim()]));
}
