import { ActionIcon, Button, CopyButton } from '@mantine/core';
import { lazy, Suspense, type Ref } from 'react';
import { useClusterSchema } from '../../api/queries';
import type { Problem } from '../../api/types';
import { saveText } from '../../api/client';
import { Icon } from '../../components/Icon';
import type { EditorHandle } from '../../editor/YamlEditor';
import type { CreateForm } from './useCreateForm';

const YamlEditor = lazy(() => import('../../editor/YamlEditor').then((m) => ({ default: m.YamlEditor })));

interface Props {
  create: CreateForm;
  problems?: Problem[];
  /** A write is under way or done. */
  isFixed: boolean;
  editor: Ref<EditorHandle>;
}

/** The manifest that the form writes, or that the user edits. */
export function ManifestCard({ create, problems, isFixed, editor }: Props) {
  const { data: schema } = useClusterSchema();
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
          <Button size="compact-sm" variant="default" onClick={useForm} disabled={isFixed}>
            Use the form again
          </Button>
        ) : (
          <Button
            size="compact-sm"
            variant="default"
            onClick={() => edit(text)}
            disabled={!text || !isCurrent || isFixed}
          >
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
      <div className="create-manifest" data-fixed={!isByHand || undefined}>
        {text ? (
          <Suspense>
            <YamlEditor
              ref={editor}
              value={text}
              onChange={edit}
              readOnly={!isByHand || isFixed}
              problems={problems}
              schema={schema}
            />
          </Suspense>
        ) : (
          <p className="empty">The manifest appears here.</p>
        )}
      </div>
    </section>
  );
}
