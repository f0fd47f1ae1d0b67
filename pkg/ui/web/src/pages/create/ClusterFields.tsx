import { Button, NativeSelect, TextInput } from '@mantine/core';
import { lazy, Suspense, useMemo, useState } from 'react';
import { createPortal } from 'react-dom';
import { useAdministration, useReleases } from '../../api/queries';
import { sentence } from '../../components/Command';
import { chevron } from '../../components/Icon';
import { Notice } from '../../components/Notice';
import { useClusters } from '../../live/hooks';
import { useNamespaces } from '../../session/namespaces';
import {
  credentialChoices,
  credentialReference,
  distributions,
  runningVersions,
  versionFor,
  versionSuggestions,
  type Distribution,
  type FieldErrors,
} from './form';
import type { CreateForm } from './useCreateForm';

const CredentialDialog = lazy(() => import('../../credentials/CredentialDialog'));

interface Props {
  create: CreateForm;
  errors: FieldErrors;
}

export function ClusterFields(props: Props) {
  const { form, set } = props.create;
  const { errors } = props;
  const { data: namespaces } = useNamespaces();
  return (
    <>
      <section className="card" aria-label="Name and machines">
        <div className="card-head">
          <h2>Name and machines</h2>
        </div>
        <div className="card-body form-grid">
          <TextInput
            label="Name"
            name="name"
            value={form.name}
            error={errors.name}
            onChange={(e) => set({ name: e.currentTarget.value })}
            autoComplete="off"
            spellCheck={false}
            required
          />
          <TextInput
            label="Namespace"
            name="namespace"
            list="create-namespaces"
            value={form.namespace}
            error={errors.namespace}
            onChange={(e) => set({ namespace: e.currentTarget.value })}
            autoComplete="off"
            spellCheck={false}
            required
          />
          <datalist id="create-namespaces">
            {namespaces?.namespaces.map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
          <MachinesFrom {...props} />
          {form.driver && <Credential {...props} />}
        </div>
      </section>
      <section className="card" aria-label="Kubernetes">
        <div className="card-head">
          <h2>Kubernetes</h2>
        </div>
        <div className="card-body form-grid">
          <Version {...props} />
        </div>
      </section>
    </>
  );
}

function MachinesFrom({ create, errors }: Props) {
  const { form, set, drivers } = create;
  const problem =
    drivers.data?.reason === 'Forbidden' && !drivers.data.items?.length
      ? 'You may not list the node drivers.'
      : (drivers.data?.error ?? drivers.error?.message);
  const choose = (driver: string) =>
    set({ driver, credential: '', pools: form.pools.map((pool) => ({ ...pool, config: {} })) });
  return (
    <div>
      <NativeSelect
        label="Machines"
        name="driver"
        rightSection={chevron}
        data={[
          { value: '', label: 'Existing hosts' },
          ...(drivers.data?.items ?? []).map(({ name, displayName }) => ({ value: name, label: displayName || name })),
        ]}
        value={form.driver}
        error={errors.driver}
        onChange={(e) => choose(e.currentTarget.value)}
      />
      {problem && <p className="dim hint-line">{sentence(problem)}</p>}
    </div>
  );
}

function Credential({ create, errors }: Props) {
  const { form, set } = create;
  const [isOpen, setOpen] = useState(false);
  const { data } = useAdministration();
  const part = data?.credentials;
  const choices = credentialChoices(part?.items ?? [], form.driver, form.namespace.trim());
  const common = { label: 'Cloud credential', name: 'credential', error: errors.credential };
  return (
    <div className="with-button">
      {part?.error !== undefined ? (
        <TextInput
          {...common}
          description="You may not list credentials. Type NAME, or cattle-global-data:NAME."
          value={form.credential}
          onChange={(e) => set({ credential: e.currentTarget.value })}
          spellCheck={false}
        />
      ) : (
        <NativeSelect
          {...common}
          rightSection={chevron}
          data={[
            { value: '', label: 'None' },
            ...choices,
            ...(form.credential && !choices.some(({ value }) => value === form.credential) ? [form.credential] : []),
          ]}
          value={form.credential}
          onChange={(e) => set({ credential: e.currentTarget.value })}
        />
      )}
      <Button variant="default" onClick={() => setOpen(true)} aria-label="New credential">
        New
      </Button>
      {isOpen &&
        // A form in a form would be sent by the browser.
        createPortal(
          <Suspense>
            <CredentialDialog
              driver={form.driver}
              namespace={form.namespace.trim()}
              onClose={() => setOpen(false)}
              onDone={(made) =>
                set({ credential: credentialReference(made.namespace, made.name, form.namespace.trim()) })
              }
            />
          </Suspense>,
          document.body,
        )}
    </div>
  );
}

function Version({ create, errors }: Props) {
  const { form, set } = create;
  const clusters = useClusters();
  const releases = useReleases();
  const { distribution } = form;
  const running = useMemo(() => runningVersions(clusters, distribution), [clusters, distribution]);
  const minors = releases.data?.[distribution] ?? [];
  const choose = (next: Distribution) =>
    set({ distribution: next, version: versionFor(form.version, next, runningVersions(clusters, next)) });
  return (
    <>
      <NativeSelect
        label="Distribution"
        name="distribution"
        rightSection={chevron}
        data={Object.entries(distributions).map(([value, label]) => ({ value, label }))}
        value={distribution}
        onChange={(e) => choose(e.currentTarget.value as Distribution)}
      />
      <div>
        <TextInput
          label="Version"
          name="version"
          list="create-versions"
          placeholder={`For example v1.36.2+${distribution === 'k3s' ? 'k3s1' : 'rke2r1'}`}
          value={form.version}
          error={errors.version}
          onChange={(e) => set({ version: e.currentTarget.value })}
          autoComplete="off"
          spellCheck={false}
          required
        />
        {minors.length > 0 && (
          <p className="dim hint-line">
            Known minors: {minors[0]} to {minors.at(-1)}
          </p>
        )}
        <datalist id="create-versions">
          {versionSuggestions(running, releases.data, distribution).map((text) => (
            <option key={text} value={text} />
          ))}
        </datalist>
      </div>
      {distribution === 'rke2' && (
        <NativeSelect
          label="Network"
          name="cni"
          rightSection={chevron}
          data={[
            { value: '', label: 'Default' },
            ...(releases.data?.networks ?? []).map((value) => ({
              value,
              label: value === 'none' ? 'None: bring your own' : value,
            })),
          ]}
          value={form.cni}
          error={errors.cni}
          onChange={(e) => set({ cni: e.currentTarget.value })}
        />
      )}
      {releases.error && <Notice tone="off">The known versions are not here: {releases.error.message}</Notice>}
    </>
  );
}
