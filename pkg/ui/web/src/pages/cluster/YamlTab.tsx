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
import { useUnsaved } from '../../lib/unsaved';
import type { ClusterName } from './ClusterPage';
import { followWrite, keepText, typeText, type Edit } from './edit';
import { Placeholder } from './OverviewTab';

const every10s = 10_000;

/** The page asks for the manifest again after ten seconds, whatever the answer was. */
const ignore = () => undefined;

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

/** The edit, and what happens to it when the user or another one changes the cluster. */
function useEdit({ namespace, name, live, reload }: EditorProps) {
  const change = useChange({ namespace, name });
  const [edit, setEdit] = useState<Edit>();
  const text = edit?.text ?? live.text;
  const isWritten = change.phase === 'applied' && change.text === text;
  const isEdited = edit !== undefined && edit.text !== edit.base.text && !isWritten;
  // An answer with early problems has seen nothing.
  const seen = change.answer?.seen || live.seen;
  const isOutdated = isEdited && (live.seen !== edit.base.seen || ![edit.base.seen, edit.kept].includes(seen));
  const hasChanged = change.error instanceof ApiError && change.error.status === 412;
  useEffect(() => {
    if (hasChanged) void reload().catch(ignore);
  }, [hasChanged]);
  useUnsaved(isEdited);
  const discard = () => {
    setEdit(undefined);
    change.reset();
  };
  // The user can type on while the page reads the manifest.
  const keep = (base: Manifest) => setEdit((now) => keepText(now, base, change.answer?.seen));
  const follow = (base: Manifest) => setEdit((now) => followWrite(now, base, text));
  return {
    change,
    text,
    isEdited,
    isOutdated,
    /** The text that can be previewed. */
    toWrite: isEdited || isWritten ? text : undefined,
    type: (next: string) => setEdit((now) => typeText(now, live, next)),
    discard,
    load: () => void reload().then(discard, ignore),
    keep: () => void reload().then(keep, ignore),
    written: () => void reload().then(follow, ignore),
  };
}

function Editor(props: EditorProps) {
  const { data: access } = useAccess(props.namespace);
  const { data: schema } = useClusterSchema();
  const edit = useEdit(props);
  const editor = useRef<EditorHandle>(null);
  const [isTrial, setTrial] = useState(false);
  const mayEdit = access?.clusters === 'edit';
  const isReader = access !== undefined && !mayEdit && !isTrial;
  return (
    <div className="yaml-edit">
      <YamlEditor
        ref={editor}
        value={edit.text}
        onChange={edit.type}
        problems={edit.change.answer?.problems}
        schema={schema}
        readOnly={!(mayEdit || isTrial) || edit.change.phase === 'applying'}
      />
      <div className="yaml-side">
        {isReader ? (
          <ReadOnly namespace={props.namespace} onTry={() => setTrial(true)} />
        ) : (
          <Side edit={edit} live={props.live} jump={(line, column) => editor.current?.jump(line, column)} />
        )}
      </div>
    </div>
  );
}

interface SideProps {
  edit: ReturnType<typeof useEdit>;
  live: Manifest;
  jump: EditorHandle['jump'];
}

/** What stands beside the editor: the preview of the edit, and what to do about foreign edits. */
function Side({ edit, live, jump }: SideProps) {
  const { change, isEdited, isOutdated } = edit;
  const gone = change.answer && goneOf(change.answer);
  return (
    <>
      {gone && <Notice tone="bad">{gone}</Notice>}
      {isOutdated && !gone && <Outdated load={edit.load} keep={edit.keep} />}
      <ChangePanel
        change={change}
        text={edit.toWrite}
        onJump={jump}
        onApplied={edit.written}
        unconfirmed={isOutdated || !!gone}
        extra={
          isEdited && (
            <Button variant="default" onClick={edit.discard} disabled={change.phase === 'applying'}>
              Discard the edit
            </Button>
          )
        }
      />
      {!isEdited && change.phase === 'idle' && (
        <p className="dim">Edit the manifest, then preview what the edit does to each machine.</p>
      )}
      {isEdited && <Compare before={live.text} after={edit.text} />}
    </>
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
