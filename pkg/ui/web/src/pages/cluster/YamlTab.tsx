import { Button } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { ApiError } from '../../api/client';
import { useAccess, useClusterSchema } from '../../api/queries';
import { loadManifest, type Manifest } from '../../change/api';
import { ChangePanel } from '../../change/ChangePanel';
import { Diff } from '../../change/Diff';
import { goneOf } from '../../change/effects';
import { useChange } from '../../change/useChange';
import { Failure, Notice } from '../../components/Notice';
import { YamlEditor, type EditorHandle } from '../../editor/YamlEditor';
import { useUnsaved } from '../../layout/Unsaved';
import type { ClusterName } from './ClusterPage';
import { Placeholder } from './OverviewTab';

const every10s = 10_000;

/** The page asks for the manifest again after ten seconds, whatever the answer was. */
const ignore = () => undefined;

/** An edit that has not been written. It stays when the Cluster changes. */
interface Edit {
  text: string;
  /** The manifest that the user has begun with. */
  base: Manifest;
  /** The version of the cluster for which the user has kept the text. */
  kept?: string;
}

/** The manifest of the cluster, with an editor, and the effect of an edit beside it. */
export default function YamlTab(props: ClusterName) {
  const { namespace, name } = props;
  const key = ['manifest', namespace, name];
  const { data, error, refetch } = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => loadManifest({ namespace, name }, signal),
    refetchInterval: every10s,
  });
  const client = useQueryClient();
  if (!data) return error ? <Failure error={error} retry={refetch} /> : <Placeholder lines={12} />;
  const reload = async () => {
    const manifest = await loadManifest({ namespace, name });
    client.setQueryData(key, manifest);
    return manifest;
  };
  return <Editor {...props} live={data} reload={reload} />;
}

interface EditorProps extends ClusterName {
  live: Manifest;
  /** Reads the manifest again. */
  reload: () => Promise<Manifest>;
}

function Editor({ namespace, name, live, reload }: EditorProps) {
  const { data: access } = useAccess(namespace);
  const { data: schema } = useClusterSchema();
  const change = useChange({ namespace, name });
  const editor = useRef<EditorHandle>(null);
  const [edit, setEdit] = useState<Edit>();
  const [isTrial, setTrial] = useState(false);
  const mayEdit = access?.clusters === 'edit';
  const text = edit?.text ?? live.text;
  const isWritten = change.phase === 'applied' && change.text === text;
  const isEdited = edit !== undefined && edit.text !== edit.base.text && !isWritten;
  // An answer with early problems has seen nothing.
  const seen = change.answer?.seen || live.seen;
  const gone = change.answer && goneOf(change.answer);
  const isOutdated = isEdited && (live.seen !== edit.base.seen || ![edit.base.seen, edit.kept].includes(seen));
  useUnsaved(isEdited);
  const discard = () => {
    setEdit(undefined);
    setTrial(false);
    change.reset();
  };
  const keep = (base: Manifest) => setEdit({ text, base, kept: change.answer?.seen });
  // The user can type on while the page reads what it has written.
  const written = async () => {
    const base = await reload();
    setEdit((now) => (now && now.text !== text ? { text: now.text, base } : undefined));
  };
  const hasChanged = change.error instanceof ApiError && change.error.status === 412;
  useEffect(() => {
    if (hasChanged) void reload().catch(ignore);
  }, [hasChanged]);
  return (
    <div className="yaml-edit">
      <YamlEditor
        ref={editor}
        value={text}
        onChange={(next) => setEdit({ base: live, ...edit, text: next })}
        problems={change.answer?.problems}
        schema={schema}
        readOnly={!(mayEdit || isTrial) || change.phase === 'applying'}
      />
      <div className="yaml-side">
        {access && !mayEdit && !isTrial ? (
          <ReadOnly namespace={namespace} onTry={() => setTrial(true)} />
        ) : (
          <>
            {isOutdated && (
              <Outdated
                load={() => void reload().then(discard, ignore)}
                keep={() => void reload().then(keep, ignore)}
              />
            )}
            <ChangePanel
              change={change}
              text={isEdited || isWritten ? text : undefined}
              onJump={(line, column) => editor.current?.jump(line, column)}
              onApplied={() => void written().catch(ignore)}
              unconfirmed={isOutdated || !!gone}
              extra={
                isEdited && (
                  <Button variant="default" onClick={discard} disabled={change.phase === 'applying'}>
                    Discard the edit
                  </Button>
                )
              }
            />
            {!isEdited && change.phase === 'idle' && (
              <p className="dim">Edit the manifest, then preview what the edit does to each machine.</p>
            )}
            {isEdited && <Compare before={live.text} after={text} />}
          </>
        )}
      </div>
    </div>
  );
}

function ReadOnly({ namespace, onTry }: { namespace: string; onTry: () => void }) {
  return (
    <Notice
      tone="off"
      action={
        <Button size="compact-sm" variant="default" onClick={onTry}>
          Try an edit
        </Button>
      }
    >
      You may not change clusters in {namespace}, so the manifest is read only. You can preview an edit.
    </Notice>
  );
}

function Outdated({ load, keep }: { load: () => void; keep: () => void }) {
  return (
    <Notice tone="warn">
      The cluster has changed since you began to edit. Your text would undo that change.
      <div className="change-bar">
        <Button size="compact-sm" variant="default" onClick={load}>
          Load the new manifest
        </Button>
        <Button size="compact-sm" variant="default" onClick={keep}>
          Keep my text
        </Button>
      </div>
    </Notice>
  );
}

/** The difference between the cluster as it is and the text. */
function Compare({ before, after }: { before: string; after: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Compare with the cluster</summary>
      {isOpen && <Diff before={before} after={after} />}
    </details>
  );
}
