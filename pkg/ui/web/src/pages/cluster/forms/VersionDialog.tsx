import { TextInput } from '@mantine/core';
import { useId, useState } from 'react';
import { useReleases } from '../../../api/queries';
import { ChangeDialog } from '../../../change/ChangeDialog';
import { EditError, setVersion, versionOf } from '../../../change/edits';
import { Notice } from '../../../components/Notice';
import { useClusters } from '../../../live/hooks';
import type { ActionProps } from '../action';
import { offeredMinors, offeredVersions, problemOf, warningOf } from './versions';

/** Changes the Kubernetes version. */
export default function VersionDialog({ cluster, onClose }: ActionProps) {
  const [typed, setTyped] = useState<string>();
  const { data: releases } = useReleases();
  const makeText = (manifest: string) => {
    const now = versionOf(manifest);
    if (typed === undefined || typed.trim() === now) return manifest;
    const problem = problemOf(typed.trim(), now, releases);
    if (problem) throw new EditError(problem);
    return setVersion(manifest, typed.trim());
  };
  return (
    <ChangeDialog
      title={`Kubernetes version of ${cluster.name}`}
      target={cluster}
      makeText={makeText}
      onClose={onClose}
      applyLabel="Upgrade"
    >
      {(manifest) => <VersionField now={versionOf(manifest)} typed={typed} onType={setTyped} />}
    </ChangeDialog>
  );
}

function VersionField({ now, typed, onType }: { now: string; typed?: string; onType: (text: string) => void }) {
  const id = useId();
  const { data: releases } = useReleases();
  const versions = offeredVersions(now, useClusters());
  const minors = releases ? offeredMinors(now, releases) : [];
  const warning = typed && warningOf(typed.trim(), now);
  return (
    <>
      <TextInput
        label="Version"
        description={
          `The manifest has ${now || 'no version'}.` +
          (minors.length ? ` The cluster can have a version of ${minors.join(' or ')}.` : '')
        }
        value={typed ?? now}
        onChange={(event) => onType(event.currentTarget.value)}
        list={id}
        autoComplete="off"
        spellCheck={false}
        data-autofocus
      />
      <datalist id={id}>
        {versions.map((version) => (
          <option key={version} value={version} />
        ))}
      </datalist>
      {versions.length > 0 && (
        <p className="dim">
          Other clusters have{' '}
          {versions.slice(0, 5).map((version, i) => (
            <span key={version}>
              {i > 0 && ', '}
              <button type="button" className="problem-line" onClick={() => onType(version)}>
                {version}
              </button>
            </span>
          ))}
          .
        </p>
      )}
      {warning && <Notice tone="warn">{warning}</Notice>}
    </>
  );
}
