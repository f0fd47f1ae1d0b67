import { Button } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useEffect, useRef, useState, type RefObject } from 'react';
import { ChangePanel } from '../../change/ChangePanel';
import { existsOf } from '../../change/effects';
import { useChange, type Change } from '../../change/useChange';
import { sentence } from '../../components/Command';
import { Notice } from '../../components/Notice';
import type { EditorHandle } from '../../editor/YamlEditor';
import { rows, useCluster, useSynced } from '../../live/hooks';
import { useTitle } from '../../layout/Shell';
import { useUnsaved } from '../../lib/unsaved';
import { useChosenNamespaces } from '../../session/namespaces';
import { ClusterFields } from './ClusterFields';
import { distributionOf, emptyForm, newPool, placeProblems, runningVersions, type FieldErrors } from './form';
import { ManifestCard } from './ManifestCard';
import { PoolCard } from './PoolCard';
import { useCreateForm, type CreateForm } from './useCreateForm';
import './create.css';

const route = getRouteApi('/create');

/** Makes a cluster: a form and its manifest side by side, then the preview, then one write. */
export function CreatePage() {
  useTitle('Create a cluster');
  const chosen = useChosenNamespaces();
  const { namespace } = route.useSearch();
  const create = useCreateForm(() => emptyForm(namespace ?? (chosen.split(',')[0] || 'fleet-default')));
  useUsualVersion(create);
  const change = useChange(create.target, { isNew: true });
  const editor = useRef<EditorHandle>(null);
  useUnsaved(create.isUnsaved && change.phase !== 'applied');
  return (
    <>
      <header className="create-head">
        <nav aria-label="Path" className="path dim">
          <Link to="/clusters">Clusters</Link> <span aria-hidden="true">/</span>
        </nav>
        <h1>Create a cluster</h1>
      </header>
      <div className="create">
        <Form create={create} change={change} />
        <div className="create-side">
          <ManifestCard
            create={create}
            problems={change.text === create.text ? change.answer?.problems : undefined}
            isFixed={change.phase === 'applying' || change.phase === 'applied'}
            editor={editor}
          />
          <Finish create={create} change={change} editor={editor} />
        </div>
      </div>
    </>
  );
}

/** Offers the newest version that runs here, when the page knows the clusters. */
function useUsualVersion({ form, begin }: CreateForm) {
  const synced = useSynced('clusters');
  const offered = useRef(false);
  useEffect(() => {
    if (!synced || offered.current) return;
    offered.current = true;
    const clusters = rows.snapshot().clusterList;
    const version = runningVersions(clusters, 'rke2')[0] ?? runningVersions(clusters, 'k3s')[0];
    if (version && !form.version) begin({ version, distribution: distributionOf(version) });
  }, [synced, form, begin]);
}

function Form({ create, change }: { create: CreateForm; change: Change }) {
  const { form, set, driver } = create;
  const isDone = change.phase === 'applying' || change.phase === 'applied';
  const fromPreview = placeProblems((change.text === create.text && change.answer?.problems) || []).errors;
  // The new cluster takes its own name.
  const errors: FieldErrors = isDone ? {} : { ...fromPreview, ...create.shown };
  return (
    <form
      className="create-form"
      aria-label="Cluster"
      onSubmit={(event) => event.preventDefault()}
      onBlur={({ target }: { target: Element }) => create.touch(target.getAttribute('name') ?? '')}
      noValidate
    >
      {create.isByHand && (
        <Notice
          tone="off"
          action={
            <Button size="compact-sm" variant="default" onClick={create.useForm} disabled={isDone}>
              Use the form again
            </Button>
          }
        >
          You edit the YAML, so the form does not write it. The form replaces your edits when you use it again.
        </Notice>
      )}
      <fieldset className="create-fields" disabled={create.isByHand || isDone}>
        <legend className="visually-hidden">Fields of the cluster</legend>
        <ClusterFields create={create} errors={errors} />
        {form.driver ? (
          <section className="card" aria-label="Pools">
            <div className="card-head">
              <h2>Pools</h2>
            </div>
            <div className="card-body pool-list">
              {form.pools.map((pool, i) => (
                <PoolCard
                  key={`${form.driver} ${pool.id}`}
                  pool={pool}
                  path={`pools[${i}]`}
                  driver={driver}
                  errors={errors}
                  onChange={(next) => set({ pools: form.pools.map((old) => (old.id === next.id ? next : old)) })}
                  onRemove={
                    form.pools.length > 1
                      ? () => set({ pools: form.pools.filter((old) => old.id !== pool.id) })
                      : undefined
                  }
                />
              ))}
              <Button
                size="compact-sm"
                variant="default"
                onClick={() => set({ pools: [...form.pools, newPool(form.pools)] })}
              >
                Add a pool
              </Button>
            </div>
          </section>
        ) : (
          <Notice tone="off">
            The cluster starts with the hosts that you register. Its page gives the command for them.
          </Notice>
        )}
      </fieldset>
    </form>
  );
}

interface FinishProps {
  create: CreateForm;
  change: Change;
  editor: RefObject<EditorHandle | null>;
}

function Finish({ create, change, editor }: FinishProps) {
  const { text, isCurrent, isByHand, others, target, made } = create;
  const failed = Object.keys(create.errors).length > 0;
  const { wanted, preview } = useWantedPreview(create, change, failed);
  const refusal = change.answer && existsOf(change.answer);
  const exists = useCluster(target.namespace, target.name) !== undefined;
  useOpenWhenCreated(change.phase === 'applied' && exists, target);
  if (change.phase === 'applied')
    return (
      <Notice tone="good">
        Cluster{' '}
        <Link to="/clusters/$namespace/$name" params={target}>
          {target.name}
        </Link>{' '}
        is created.
      </Notice>
    );
  return (
    <>
      {made.error && !isByHand && <Notice tone="bad">{sentence(made.error.message)}</Notice>}
      {others.map(({ field, message }) => (
        <Notice key={`${field} ${message}`} tone="bad">
          {field && <b>{field}: </b>}
          {sentence(message)}
        </Notice>
      ))}
      <ChangePanel
        change={change}
        text={text}
        applyLabel="Create"
        onJump={(line, column) => editor.current?.jump(line, column)}
        disabled={wanted || (!text && (isByHand || !made.isError))}
        unconfirmed={!!refusal || !isCurrent || (failed && !isByHand)}
        onPreview={preview}
      >
        {refusal && <Notice tone="bad">{refusal}</Notice>}
      </ChangePanel>
      {change.error !== undefined && exists && (
        <Notice tone="off">
          Cluster{' '}
          <Link to="/clusters/$namespace/$name" params={target}>
            {target.name}
          </Link>{' '}
          exists.
        </Notice>
      )}
    </>
  );
}

/** Previews when the manifest of the form is here. A request for the manifest that failed is sent again. */
function useWantedPreview(create: CreateForm, change: Change, failed: boolean) {
  const { text, isCurrent, isByHand, made } = create;
  const [wanted, setWanted] = useState(false);
  useEffect(() => {
    if (!wanted || !isCurrent) return;
    setWanted(false);
    if (isByHand || !failed) void change.preview(text);
    else focusFirstError();
  }, [wanted, isCurrent, isByHand, failed, text, change]);
  // Each failure ends the wait, so that the user can ask again.
  useEffect(() => {
    if (made.isError) setWanted(false);
  }, [made.isError, made.errorUpdateCount]);
  const preview = () => {
    create.attempt();
    setWanted(true);
    if (made.isError && !isByHand) void made.refetch();
  };
  return { wanted, preview };
}

/** The page of the cluster needs its row. A user who does not follow its namespace gets a link instead. */
function useOpenWhenCreated(isReady: boolean, { namespace, name }: { namespace: string; name: string }) {
  const navigate = route.useNavigate();
  useEffect(() => {
    if (isReady) void navigate({ to: '/clusters/$namespace/$name', params: { namespace, name }, replace: true });
  }, [isReady, navigate, namespace, name]);
}

function focusFirstError() {
  // The fields show their errors after the next rendering.
  requestAnimationFrame(() => document.querySelector<HTMLElement>('.create [aria-invalid="true"]')?.focus());
}
