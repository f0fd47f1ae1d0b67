import { ActionIcon, Button, CopyButton } from '@mantine/core';
import { Suspense } from 'react';
import type { Problem } from '../../api/types';
import { saveText } from '../../api/client';
import { Icon } from '../../components/Icon';
import type { CreateForm } from './useCreateForm';
import { YamlEditor } from './editor';

/** The manifest that the form writes, or that the user edits. */
export function ManifestCard({ create, problems }: { create: CreateForm; problems?: Problem[] }) {
  const { text, isByHand, edit, useForm, isCurrent, target } = create;
  return (
    <section className="card" aria-label="Manifest">
      <div className="card-head">
        <h2>Manifest</h2>
        <span className="dim" aria-hidden={isCurrent}>
          {isCurrent ? '' : 'Updating …'}
        </span>
        <span className="grow" />
        {isByHand ? (
          <Button size="compact-sm" variant="default" onClick={useForm}>
            Use the form again
          </Button>
        ) : (
          <Button size="compact-sm" variant="default" onClick={() => edit(text)} disabled={!text || !isCurrent}>
            Edit by hand
          </Button>
        )}
        <CopyButton value={text}>
          {({ copied, copy }) => (
            <ActionIcon
              variant="subtle"
              color="gray"
              onClick={copy}
              disabled={!text}
              aria-label={copied ? 'Copied' : 'Copy the manifest'}
              title={copied ? 'Copied' : 'Copy the manifest'}
            >
              <Icon name={copied ? 'check' : 'copy'} />
            </ActionIcon>
          )}
        </CopyButton>
        <ActionIcon
          variant="subtle"
          color="gray"
          onClick={() => saveText(text, `${target.name || 'cluster'}.yaml`)}
          disabled={!text}
          aria-label="Download the manifest"
          title="Download the manifest"
        >
          <Icon name="download" />
        </ActionIcon>
      </div>
      <div className="create-manifest">
        {text ? (
          <Suspense>
            <YamlEditor value={text} onChange={edit} readOnly={!isByHand} problems={problems} />
          </Suspense>
        ) : (
          <p className="empty">The manifest appears here.</p>
        )}
      </div>
    </section>
  );
}
